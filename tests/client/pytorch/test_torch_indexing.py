"""Views of memory, and values that masks put, are in TVM what they are in torch."""

from collections.abc import Callable

import pytest
import torch

from tests.client.pytorch.running import Of, imported, require_as_torch
from tunefarm_schemas.bad_input import BadInput

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]


def test_views_show_memory_in_the_order_that_it_has_in_torch() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        turned = x.transpose(0, 1)
        return (
            turned.as_strided((2, 3), (1, 2)),
            (turned * 2).as_strided((5, 4), (4, 1)),
            x[1:].as_strided((5,), (1,)),
            (turned + 1).as_strided_scatter(torch.zeros(2, 3), (2, 3), (6, 1), 2),
        )

    require_as_torch(Of(function), (torch.randn(4, 5),))


def test_view_of_memory_beside_the_tensor_is_refused() -> None:
    with pytest.raises(BadInput, match="shows memory beside the tensor"):
        imported(Of(lambda x: (x * 1)[1:].as_strided((5,), (1,), 0)), (torch.randn(4, 5),))


def put(value: Callable[[torch.Tensor], torch.Tensor], *, is_column: bool) -> Callable[..., torch.Tensor]:
    def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        changed = x.clone()
        if is_column:
            changed[:, mask] = value(x)
        else:
            changed[mask] = value(x)
        return changed

    return function


@pytest.mark.parametrize(
    "value",
    [lambda _: torch.tensor(7.0), lambda x: x[0, 0].clone(), lambda x: x[:1, 0].clone()],
    ids=["number", "row", "one row"],
)
def test_masks_choose_where_the_same_values_are_put(value: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(2, 4, 3)
    require_as_torch(Of(put(value, is_column=False)), (x, torch.rand(2, 4) > 0.5))
    require_as_torch(Of(put(value, is_column=True)), (x, torch.rand(4) > 0.5))


def test_values_for_each_example_are_put_by_a_mask_of_columns() -> None:
    require_as_torch(Of(put(lambda x: x[:, :1].clone(), is_column=True)), (torch.randn(2, 4, 3), torch.rand(4) > 0.5))
