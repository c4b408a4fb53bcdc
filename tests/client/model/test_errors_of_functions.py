"""Where roundings to bytes add up, each function of a model is compared with another build's on the same arguments."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.client.model.conftest import CompiledOnce
from tunefarm.model.compare_child import error_of_functions
from tunefarm.model.loaded_model import CompiledModel, load_model


@dataclass(frozen=True)
class OtherBuild:
    """A build whose functions give the results of ``model`` after a change."""

    model: CompiledModel
    change: Callable[[Any], Any]

    def kernel(self, name: str) -> Any:
        kernel = self.model.kernel(name)
        if kernel is None:
            return None

        def call(*arguments: Any) -> None:
            kernel(*arguments)
            arguments[-1].copyfrom(self.change(arguments[-1].numpy()))

        return call


@pytest.mark.parametrize(
    ("change", "is_equal"),
    [(lambda x: x, True), (lambda x: x * np.float32(1 + 1e-6), True), (lambda x: x * np.float32(1.1), False)],
    ids=["same", "rounded", "wrong"],
)
def test_each_function_is_compared(network: CompiledOnce, change: Callable[[Any], Any], is_equal: bool) -> None:
    model = load_model(network.folder)
    error = error_of_functions(model, OtherBuild(load_model(network.folder), change))  # type: ignore[arg-type]
    assert (error <= 1) == is_equal


def test_kernels_are_those_of_the_library(network: CompiledOnce) -> None:
    model = load_model(network.folder)
    assert all(model.kernel(function.name) is not None for function in model.manifest.functions)
    assert model.kernel("vm.builtin.reshape") is None
