"""Models of torch that torch.fx traces give in TVM what they give in torch."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from tvm import relax

from tests.client.pytorch.running import by_torch, by_tvm, imported, require_as_torch, require_equal
from tunefarm.frontend.pytorch.references import COUNT
from tunefarm_schemas.bad_input import BadInput

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]


def test_trace_of_modules_computes_what_torch_computes() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4)
    ).eval()
    module[1].running_mean.uniform_()

    require_as_torch(module, (torch.randn(1, 3, 8, 8),), traced=True)


def test_trace_of_functions_computes_what_torch_computes() -> None:
    class Notes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 4))
            self.linear = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(torch.relu(torch.matmul(x, self.weight)))

    require_as_torch(Notes().eval(), (torch.randn(2, 8),), traced=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, 0],
        lambda x: x.max(1)[0],
        lambda x: x.std(1),
        lambda x: functional.layer_norm(x, (9,), weight=torch.full((9,), 2.0), bias=torch.ones(9)),
        lambda x: functional.max_pool2d(x, 3, stride=2, padding=1),
        nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        nn.GELU("tanh"),
        nn.Hardtanh(-0.5, 2),
    ],
    ids=["column", "largest", "deviation", "norm", "pool", "means", "gelu", "bounds"],
)
def test_trace_keeps_keywords_and_attributes(function: Any) -> None:
    class Calls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.function = function

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.function(x)

    x = torch.randn(2, 4, 9, 9)
    model = imported(Calls().eval(), (x,), traced=True)
    require_equal(by_tvm(model, (x,)), by_torch(Calls().eval(), (x,)))
    assert all(each.outputs for each in model.references)
    assert len(model.references) == COUNT


def test_module_that_torch_cannot_export_is_traced() -> None:
    class Careful(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch.compiler.is_exporting():
                raise RuntimeError("no export")
            return functional.max_pool2d(x, 2, stride=1)

    x = torch.randn(1, 2, 5, 5)
    model = imported(Careful().eval(), (x,))
    assert "torch.fx traced the module, because torch.export cannot export the module: RuntimeError" in model.notes[0]
    require_equal(by_tvm(model, (x,)), by_torch(Careful().eval(), (x,)))


def test_converters_of_the_user_serve_classes_of_modules_in_a_trace() -> None:
    class Gate(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (x.sum().item() > 0)  # depends on a value

    def gate(node: Any, importer: Any) -> Any:
        return importer.block_builder.emit(relax.op.multiply(importer.env[node.args[0]], relax.const(2.0)))

    module = nn.Sequential(nn.Linear(4, 3), Gate()).eval()
    inputs = (torch.randn(2, 4),)

    model = imported(module, inputs, traced=True, converters={"Gate": gate})

    require_equal(by_tvm(model, inputs), [by_torch(module[0], inputs)[0] * 2])
    np.testing.assert_array_equal(
        model.references[-1].outputs[0], by_torch(module, tuple(map(torch.from_numpy, model.references[-1].inputs)))[0]
    )


def test_converter_of_the_user_that_gives_another_shape_is_refused() -> None:
    class Rows(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(1)

    def rows(node: Any, importer: Any) -> Any:
        return importer.block_builder.emit(relax.op.sum(importer.env[node.args[0]], 1, keepdims=True))

    with pytest.raises(BadInput, match=r"Rows at _1 is converted to the shape \[2, 1\], not \[2\]"):
        imported(nn.Sequential(nn.ReLU(), Rows()), (torch.randn(2, 4),), traced=True, converters={"Rows": rows})


def test_import_torch_traces_a_function_whose_last_argument_is_not_given() -> None:
    class Masked(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, scale: int = 2) -> torch.Tensor:
            return x * scale if mask is None else x * mask

    x = torch.randn(3, 4)
    model = imported(Masked(), (x,), traced=True)
    require_equal(by_tvm(model, (x,)), [(2 * x).numpy()])
