"""A compiled torch module takes its arguments as the module does: by position and by name."""

from typing import Any

import pytest
import torch
from torch import nn

import tunefarm
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]
COUNT = 4


class Weighing(nn.Module):
    """Takes what decoders of the package transformers take: everything by name, and most of it optional."""

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor | None = None, *, scale: torch.Tensor | None = None
    ) -> torch.Tensor:
        weighed = ids if mask is None else ids * mask
        return weighed if scale is None else weighed - scale


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"))


def compiled_with(example_inputs: Any, settings: Settings, **options: Any) -> Any:
    return tunefarm.torch.compile(Weighing(), example_inputs, target="host:1", settings=settings, **options)


def test_arguments_by_name_serve_in_any_order(settings: Settings) -> None:
    ids, mask, scale = (torch.randn(COUNT) for _ in range(3))
    compiled = compiled_with({"ids": ids, "scale": scale}, settings)
    assert torch.equal(compiled(scale=scale, ids=mask), mask - scale)
    with pytest.raises(BadInput, match="1 inputs and scale were given") as refused:
        compiled(ids, scale=scale)
    assert "by name ids, scale" in refused.value.fix
    with pytest.raises(BadInput, match="ids, mask were given"):
        compiled(ids=ids, mask=mask)


def test_positional_arguments_may_be_given_by_name(settings: Settings) -> None:
    ids, mask = torch.randn(COUNT), torch.randn(COUNT)
    compiled = compiled_with((ids, mask), settings)
    expected = ids * mask
    for found in (compiled(ids, mask), compiled(ids, mask=mask), compiled(mask=mask, ids=ids)):
        assert torch.equal(found, expected)
    for given in ({"ids": ids, "mask": mask}, {"other": mask}, {}):
        with pytest.raises(BadInput, match="were given"):
            compiled(ids, **given)


def test_one_tensor_is_one_argument(settings: Settings) -> None:
    compiled = compiled_with(torch.randn(2, COUNT), settings)
    rows = torch.randn(2, COUNT)
    assert torch.equal(compiled(rows), rows)


def test_tensors_that_kernels_cannot_read_are_refused(settings: Settings) -> None:
    compiled = compiled_with(torch.randn(2, COUNT), settings)
    for tensor, kind in (
        (torch.zeros(2, COUNT, device="meta"), "device meta"),
        (torch.zeros(2, COUNT).to_sparse(), "sparse_coo"),
    ):
        with pytest.raises(BadInput, match=kind):
            compiled(tensor)


def test_arguments_by_name_have_dynamic_sizes(settings: Settings) -> None:
    sizes = {0: [2, COUNT]}
    examples = {"scale": torch.randn(COUNT), "ids": torch.randn(COUNT)}
    compiled = compiled_with(examples, settings, dynamic={"ids": sizes, "scale": sizes})
    for count in (1, 2, 3, COUNT):
        ids, scale = torch.randn(count), torch.randn(count)
        assert torch.equal(compiled(ids=ids, scale=scale), ids - scale)


def test_arguments_of_any_number_keep_their_order(settings: Settings) -> None:
    class Alternating(nn.Module):
        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return inputs[0] - inputs[1] * inputs[2]

    tensors = tuple(torch.randn(COUNT) for _ in range(3))
    compiled = tunefarm.torch.compile(Alternating(), tensors, target="host:1", settings=settings)
    torch.testing.assert_close(compiled(*tensors), tensors[0] - tensors[1] * tensors[2])
    with pytest.raises(BadInput, match="2 tensors were given"):
        compiled(*tensors[:2])
