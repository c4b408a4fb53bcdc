from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from tests.search.scheduled import build_quickly
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.space.decisions import SketchSpace
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.tvm.target import canonical_target, tvm_target
from tunefarm_workers.builder.scheduled_module import replay

TARGET = canonical_target({"kind": "llvm", "num-cores": 2}).target
REDUCED = 96
RESULTS = 48


def dense(rows: int = 1, *, along: bool = True, dtype: str = "float32", out: str = "float32") -> list[Any]:
    """One row or several rows times a matrix whose rows lie along the reduction, or across it."""
    data = te.placeholder((rows, REDUCED), dtype, name="data")
    weight = te.placeholder((RESULTS, REDUCED) if along else (REDUCED, RESULTS), dtype, name="weight")
    k = te.reduce_axis((0, REDUCED), name="k")

    def product(i: Any, j: Any) -> Any:
        return data[i, k].astype(out) * (weight[j, k] if along else weight[k, j]).astype(out)

    return [data, weight, te.compute((rows, RESULTS), lambda i, j: te.sum(product(i, j), axis=k), name="dense")]


def with_epilogue(rows: int = 1) -> list[Any]:
    data, weight, product = dense(rows)
    bias = te.placeholder((RESULTS,), name="bias")
    zero = tvm.tirx.const(0, "float32")
    relu = te.compute((rows, RESULTS), lambda i, j: tvm.tirx.max(product[i, j] + bias[j], zero), name="relu")
    return [data, weight, bias, relu]


def normalized() -> list[Any]:
    """The consumer is a sum over all results, which fits into no loop over them."""
    data, weight, product = dense()
    j = te.reduce_axis((0, RESULTS), name="j")
    return [data, weight, te.compute((1,), lambda i: te.sum(product[i, j] * product[i, j], axis=j), name="squares")]


def per_batch() -> list[Any]:
    data = te.placeholder((3, REDUCED), name="data")
    weight = te.placeholder((3, RESULTS, REDUCED), name="weight")
    k = te.reduce_axis((0, REDUCED), name="k")
    sums = te.compute((3, RESULTS), lambda b, j: te.sum(data[b, k] * weight[b, j, k], axis=k), name="dense")
    return [data, weight, sums]


def irregular() -> list[Any]:
    """A reduction that TVM cannot factor, because it knows no identity element for it."""
    data = te.placeholder((1, REDUCED), name="data")
    weight = te.placeholder((RESULTS, REDUCED), name="weight")
    k = te.reduce_axis((0, REDUCED), name="k")
    join = te.comm_reducer(lambda x, y: x * y + x, lambda dtype: tvm.tirx.const(0, dtype), name="join")
    return [data, weight, te.compute((1, RESULTS), lambda i, j: join(data[i, k] * weight[j, k], axis=k), name="dense")]


def space_of(tensors: list[Any], target: Target, abi: Any = "stable") -> SearchSpace:
    function = te.create_prim_func(tensors).with_attr("layout_free_buffers", [1])
    return search_space(tvm.IRModule({"main": function}), target, abi, Space())


def streamed(space: SearchSpace) -> list[SketchSpace]:
    return [sketch for sketch in space.sketches if "RFactor" in sketch.steps.sketch.text]


def scheduled(space: SearchSpace, sketch: SketchSpace) -> Iterator[Any]:
    """The module for each decision of the first tile."""
    scheduler = Scheduler(space)
    tile = next(at for at, column in enumerate(sketch.columns) if column.kind == "tile")
    for row in range(len(sketch.columns[tile].table)):
        point = tuple(row if at == tile else 0 for at in range(len(sketch.columns)))
        found = scheduler.apply(Point(sketch.number, point))
        assert isinstance(found, Scheduled), found
        yield replay(space.module, found.trace.text)


def called(module: Any, arrays: list[Any]) -> Any:
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    build_quickly(module, tvm_target(TARGET))["main"](*tensors)
    return tensors[-1].numpy()


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        (dense(), 1),
        (dense(dtype="int8", out="int32"), 1),
        (with_epilogue(), 1),
        (per_batch(), 1),
        (dense(rows=4), 0),
        (dense(along=False), 0),
        (irregular(), 0),
    ],
    ids=["dense", "int8", "epilogue", "per_batch", "several_rows", "across", "irregular"],
)
def test_streamed_reduction_gets_vector_sketches(tensors: list[Any], expected: int, target: Target) -> None:
    space = space_of(tensors, target)
    assert len(streamed(space)) == expected
    assert len(space.sketches) > expected


@pytest.mark.parametrize("abi", ["stable", "packed"])
@pytest.mark.parametrize(
    "tensors", [dense(), with_epilogue(), per_batch(), normalized()], ids=lambda tensors: tensors[-1].op.name
)
@pytest.mark.quick_cases(2)
def test_vector_sums_are_correct_for_any_length(tensors: list[Any], abi: str, target: Target) -> None:
    space = space_of(tensors, target, abi)
    random = np.random.default_rng(1)
    arrays = [random.standard_normal([int(n) for n in tensor.shape]).astype("float32") for tensor in tensors]
    expected = called(space.module, arrays)
    sketches = streamed(space)
    of_each = -(-9 // len(sketches))
    modules = [module for sketch in sketches for module in islice(scheduled(space, sketch), of_each)]
    assert len(modules) > 8
    for module in modules:
        np.testing.assert_allclose(called(module, arrays), expected, rtol=1e-3, atol=1e-3)


def test_epilogue_runs_in_the_loop_of_its_sum(target: Target) -> None:
    space = space_of(with_epilogue(), target)
    (sketch,) = streamed(space)
    assert {str(module).count("T.parallel(") for module in scheduled(space, sketch)} == {1}
