"""Runs a model in torch, and as it is compiled without a trial."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import tvm
from torch import nn
from torch.utils import _pytree as pytree

from tests.client.frontend import untuned
from tunefarm.frontend.pytorch.torch_model import import_torch
from tunefarm.frontend.pytorch.weights import array_of
from tunefarm.frontend.relax_model import RelaxModel

Arrays = list[np.ndarray]


def imported(
    module: Any, inputs: Any, *, traced: bool = False, converters: Mapping[str, Any] | None = None
) -> RelaxModel:
    return import_torch(module, inputs, {}, converters or {}, traced=traced)


def by_torch(module: Any, inputs: Any) -> Arrays:
    with torch.no_grad():
        result = module(**inputs) if isinstance(inputs, dict) else module(*inputs)
    return [array_of("output", each) for each in pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]


def by_tvm(model: RelaxModel, inputs: Any, **functions: Any) -> Arrays:
    """The outputs. ``functions`` are those outside of the module, by name with "env_" for "env."."""
    for name, function in functions.items():
        tvm.register_global_func(name.replace("_", ".", 1), function, override=True)
    arrays = [array_of("input", leaf) for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    return untuned.by_tvm(model, arrays)


def require_equal(found: Sequence[Any], expected: Sequence[Any], tolerance: float = 1e-5) -> None:
    """Equal shapes and element types, and equal numbers relative to the largest of each output."""
    assert [(each.shape, each.dtype) for each in found] == [(each.shape, each.dtype) for each in expected]
    for mine, theirs in zip(found, expected, strict=True):
        largest = max(float(np.abs(theirs.astype("float64")).max(initial=0)), 1e-6)
        np.testing.assert_allclose(mine.astype("float64"), theirs.astype("float64"), atol=tolerance * largest, rtol=0)


class Of(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.eval()

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def require_as_torch(module: nn.Module, inputs: Any, tolerance: float = 1e-5, **options: Any) -> None:
    model = imported(module, inputs, **options)
    require_equal(by_tvm(model, inputs), by_torch(module, inputs), tolerance)
