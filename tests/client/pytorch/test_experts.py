"""Mixtures of experts, whose rows are multiplied by the matrix of their expert."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.client.pytorch.running import Of, require_as_torch
from tunefarm.frontend.model_import import import_model
from tunefarm.frontend.model_source import parse_model_source
from tunefarm.frontend.pytorch.package_operators import define_grouped_product
from tunefarm.frontend.pytorch.torch_model import import_torch
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]


define_grouped_product()
grouped_product = torch.ops.transformers.grouped_mm_fallback


class Experts(nn.Module):
    """Two experts for each row, which are sorted by their expert."""

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(16, experts)
        self.matrices = nn.Parameter(torch.randn(experts, 16, 24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(2)
        order = chosen.flatten().argsort()
        counts = torch.histc(chosen.flatten().float(), len(self.matrices), 0, len(self.matrices) - 1)
        products = grouped_product(x[order // 2], self.matrices, counts.cumsum(0).to(torch.int32))
        return (products[order.argsort()].unflatten(0, (-1, 2)) * weights[..., None]).sum(1)


@pytest.mark.parametrize("tokens", [1, 9], ids=["matrices are copied", "all are multiplied"])
def test_rows_are_multiplied_by_the_matrices_of_their_experts(tokens: int) -> None:
    require_as_torch(Experts(8).eval(), (torch.randn(tokens, 16),))


@pytest.mark.parametrize("groups", [2, 16])
def test_groups_may_be_empty_and_rows_in_none(groups: int) -> None:
    ends = torch.tensor([0, *[2] * (groups - 2), 4], dtype=torch.int32)
    require_as_torch(Of(lambda *given: grouped_product(*given)), (torch.randn(5, 8), torch.randn(groups, 8, 4), ends))


def test_grouped_products_of_halves_are_summed_in_float32() -> None:
    ends = torch.tensor([2, 5], dtype=torch.int32)
    rows, matrices = torch.randn(5, 16).bfloat16(), torch.randn(2, 16, 8).bfloat16()
    require_as_torch(Of(lambda *given: torch._grouped_mm(*given)), (rows, matrices, ends), 2e-2)


def test_elements_are_counted_in_intervals() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.histc(x, 10, -1, 1.5), torch.histc(x, 3, 0, 1), torch.histc(x.round(), 4, 0, 3)

    require_as_torch(Of(function), (torch.cat([torch.randn(200), torch.tensor([-1, 1.5, 0, 1, 3])]),))


def test_intervals_that_depend_on_the_data_are_refused() -> None:
    with pytest.raises(BadInput, match="its bounds are those of the data"):
        import_torch(Of(lambda x: torch.histc(x, 4)), (torch.randn(8),), {}, {}, traced=False)


def test_files_name_the_operator_of_experts_alone(fork_server: ForkServer, tmp_path: Path) -> None:
    path = tmp_path / "experts.pt2"
    torch.export.save(torch.export.export(Experts(4).eval(), (torch.randn(3, 16),)), path)

    model = import_model(fork_server, parse_model_source(str(path)), {})

    assert len(model.references) == 3
