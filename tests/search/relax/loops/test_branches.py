"""Branches of conditions at run time are functions, and compute what they do whichever is taken."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from tests.search.relax.models import controlled, random_array, run
from tests.search.scheduled import build_quickly
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.tvm.target import host_target

SHAPE = (16, 16)


@pytest.fixture(scope="module")
def here() -> Target:
    return host_target(1)


@cache
def branching() -> Any:
    """Two branches with intermediate results, then kernels that could use their storage again."""

    @I.ir_module
    class Branching:
        @R.function
        def main(
            first: R.Tensor((), "bool"),  # noqa: N805
            second: R.Tensor((), "bool"),
            x: R.Tensor((16, 16), "float32"),
            y: R.Tensor((16, 16), "float32"),
        ) -> R.Tuple(R.Tensor((16, 16), "float32"), R.Tensor((16, 16), "float32")):
            if first:
                scores: R.Tensor((16, 16), "float32") = R.matmul(x, y)
                weights: R.Tensor((16, 16), "float32") = R.nn.softmax(scores)
                if second:
                    product: R.Tensor((16, 16), "float32") = R.matmul(weights, y)
                    inner: R.Tensor((16, 16), "float32") = R.nn.relu(product)
                else:
                    inner: R.Tensor((16, 16), "float32") = weights
                chosen: R.Tensor((16, 16), "float32") = inner
            else:
                negative: R.Tensor((16, 16), "float32") = R.negative(x)
                total: R.Tensor((16, 16), "float32") = R.matmul(negative, y)
                squares: R.Tensor((16, 16), "float32") = R.matmul(total, total)
                chosen: R.Tensor((16, 16), "float32") = R.matmul(squares, y)
            doubled: R.Tensor((16, 16), "float32") = R.matmul(chosen, chosen)
            last: R.Tensor((16, 16), "float32") = R.matmul(doubled, y)
            return (chosen, last)

    return Branching


def expected(first: bool, second: bool, x: Any, y: Any) -> tuple[Any, Any]:
    if first:
        raised = np.exp(x @ y - (x @ y).max(axis=1, keepdims=True))
        weights = raised / raised.sum(axis=1, keepdims=True)
        chosen = np.maximum(weights @ y, 0) if second else weights
    else:
        total = -x @ y
        chosen = total @ total @ y
    return chosen, chosen @ chosen @ y


def relax_functions(module: Any) -> dict[str, Any]:
    return {
        str(variable.name_hint): function
        for variable, function in module.functions.items()
        if isinstance(function, relax.Function)
    }


@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.quick_cases(2)
def test_each_branch_has_the_storage_that_it_needs(here: Target, first: bool, second: bool) -> None:
    lowered = lower(prepare(branching(), {}, here).module, here)
    machine = virtual_machine(lowered, here, build_quickly)  # nothing that another case took is allocated
    x, y = 0.3 * random_array(*SHAPE), 0.3 * np.abs(random_array(*SHAPE))
    found = run(machine, (np.array(first), np.array(second), x, y))
    for one, other in zip(found, expected(first, second, x, y), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_operators_of_a_branch_are_fused(here: Target) -> None:
    prepared = prepare(branching(), {}, here)
    functions = relax_functions(prepared.module)
    assert len(functions) == 4  # main, its branches, and the one in the first
    assert any("matmul_relu" in str(function) for function in functions.values())


def test_functions_that_call_themselves_last_keep_their_branches(here: Target) -> None:
    functions = relax_functions(prepare(controlled(), {}, here).module)
    assert len(functions) == 4  # main with two branches, and the loop
