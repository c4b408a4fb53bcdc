"""An activation that is read once per element is inlined, so that it runs in the tiles of what comes before it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm import te

from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.tvm.target import host_target

ROWS, COLUMNS, SUMMED = 24, 56, 16


def function_after_product(finish: Callable[[Any, Any], Sequence[Any]]) -> tvm.IRModule:
    """A matrix product A @ B, and what ``finish`` makes of it and another input C, of which the last is returned."""
    left, right = te.placeholder((ROWS, SUMMED), name="A"), te.placeholder((SUMMED, COLUMNS), name="B")
    other, summed = te.placeholder((ROWS, COLUMNS), name="C"), te.reduce_axis((0, SUMMED), name="k")
    product = te.compute(
        (ROWS, COLUMNS), lambda i, j: te.sum(left[i, summed] * right[summed, j], summed), name="product"
    )
    *_, result = finish(product, other)
    function = te.create_prim_func([left, right, other, result])
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def each(name: str, value: Callable[[Any, Any], Any]) -> Any:
    return te.compute((ROWS, COLUMNS), value, name=name)


def silu(product: Any, _other: Any) -> Sequence[Any]:
    sigmoid = each("sigmoid", lambda i, j: 1.0 / (1.0 + te.exp(-product[i, j])))
    return sigmoid, each("result", lambda i, j: product[i, j] * sigmoid[i, j])


def silu_and_addition(product: Any, other: Any) -> Sequence[Any]:
    *_, activated = silu(product, other)
    return activated, each("sum", lambda i, j: activated[i, j] + other[i, j])


def clipped_gate(product: Any, _other: Any) -> Sequence[Any]:
    gate = each("gate", lambda i, j: tvm.tirx.Select(product[i, j] < 0.0, product[i, j] * 0.25, te.tanh(0.5)))
    return gate, each("result", lambda i, j: product[i, j] * gate[i, j])


def read_twice(product: Any, _other: Any) -> Sequence[Any]:
    power = each("power", lambda i, j: te.exp(product[i, j]))
    return power, each("result", lambda i, j: power[i, j] * power[i, j])


def two_readers(product: Any, other: Any) -> Sequence[Any]:
    power = each("power", lambda i, j: te.exp(product[i, j]))
    added = each("added", lambda i, j: power[i, j] + other[i, j])
    return power, added, each("result", lambda i, j: te.tanh(added[i, j]) * power[i, j])


def exp_of_exp(product: Any, _other: Any) -> Sequence[Any]:
    power = each("power", lambda i, j: te.exp(product[i, j]))
    return power, each("result", lambda i, j: te.exp(power[i, j]))


def space_of(module: tvm.IRModule) -> SearchSpace:
    return search_space(module, host_target(1), "stable", Space())


def blocks_left(space: SearchSpace) -> list[set[str]]:
    """For each sketch, the names of the blocks that are not inlined."""
    found = []
    for sketch in space.sketches:
        names = {
            step.outputs[0]: str(step.attributes[0]) for step in sketch.steps.instructions if step.kind == "GetSBlock"
        }
        inlined = {names[str(step.inputs[0])] for step in sketch.steps.instructions if step.kind == "ComputeInline"}
        found.append(set(names.values()) - inlined - {"root"})
    return found


@pytest.mark.parametrize(("finish", "last"), [(silu, "result"), (silu_and_addition, "sum"), (clipped_gate, "result")])
def test_activation_is_one_block_that_runs_in_the_tiles(finish: Any, last: str) -> None:
    space = space_of(function_after_product(finish))
    assert all(blocks == {"product", last} for blocks in blocks_left(space))
    assert any(step.kind == "ReverseComputeAt" for sketch in space.sketches for step in sketch.steps.instructions), (
        "no sketch computes it where the product is in a cache"
    )


@pytest.mark.parametrize(("finish", "kept"), [(read_twice, "power"), (two_readers, "power"), (exp_of_exp, "power")])
def test_function_that_would_run_more_often_keeps_its_block(finish: Any, kept: str) -> None:
    assert all(kept in blocks for blocks in blocks_left(space_of(function_after_product(finish))))


@pytest.mark.parametrize("finish", [silu, silu_and_addition, clipped_gate])
@pytest.mark.quick_cases(1)
def test_inlining_preserves_results(finish: Any) -> None:
    module = function_after_product(finish)
    space, random = space_of(module), np.random.default_rng(0)
    shapes = ((ROWS, SUMMED), (SUMMED, COLUMNS), (ROWS, COLUMNS))
    inputs = [random.standard_normal(shape).astype("float32") for shape in shapes]
    wanted, scheduler = called(module, inputs), Scheduler(space)
    for sketch in space.sketches:
        for row in sketch.sample(random, 2):
            scheduled = scheduler.apply(Point(sketch.number, tuple(int(value) for value in row)))
            assert isinstance(scheduled, Scheduled)
            found = called(scheduler.module_of(scheduled.trace), inputs)
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def called(module: tvm.IRModule, inputs: list[npt.NDArray[np.float32]]) -> Any:
    output = tvm.runtime.empty((ROWS, COLUMNS), "float32")
    tvm.tirx.build(module, target=tvm.target.Target({"kind": "llvm", "opt-level": 0}))["main"](
        *map(tvm.runtime.tensor, inputs), output
    )
    return output.numpy()
