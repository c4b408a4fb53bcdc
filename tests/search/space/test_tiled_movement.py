"""Functions without a reduction that read across rows get tiles, and an estimate of their cost."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.tvm.target import host_target


def module_of(shape: tuple[int, ...], compute: Any, *inputs: tuple[int, ...]) -> tvm.IRModule:
    arguments = [te.placeholder(each, "float32", name=f"A{number}") for number, each in enumerate(inputs)]
    result = te.compute(shape, compute(*arguments), name="B")
    return tvm.IRModule({"main": te.create_prim_func([*arguments, result]).with_attr("global_symbol", "main")})


def transpose(rows: int = 256, columns: int = 256) -> tvm.IRModule:
    return module_of((columns, rows), lambda a: lambda i, j: a[j, i], (rows, columns))


def permutation() -> tvm.IRModule:
    return module_of((8, 16, 32), lambda a: lambda i, j, k: a[j, k, i], (16, 32, 8))


def packing() -> tvm.IRModule:
    return module_of((2, 7, 7, 16), lambda a: lambda c, i, j, d: a[c * 16 + d, i, j], (32, 7, 7))


def sum_with_transpose() -> tvm.IRModule:
    return module_of((64, 64), lambda a, b: lambda i, j: a[i, j] + b[j, i], (64, 64), (64, 64))


def space_of(module: tvm.IRModule) -> SearchSpace:
    return search_space(module, host_target(1), "stable", Space())


@pytest.mark.parametrize("module", [transpose(), permutation(), packing(), sum_with_transpose()])
@pytest.mark.quick_cases(2)
def test_tiled_movement_preserves_results(module: tvm.IRModule) -> None:
    space, random = space_of(module), np.random.default_rng(0)
    assert len(space.sketches) == 3
    scheduler, function = Scheduler(space), module["main"]
    inputs = [random.standard_normal([int(n) for n in p.shape]).astype("float32") for p in function.params[:-1]]
    shape = [int(n) for n in function.params[-1].shape]
    wanted = called(module, inputs, shape)
    for sketch in space.sketches[1:]:
        for row in sketch.sample(random, 2):
            scheduled = scheduler.apply(Point(sketch.number, tuple(int(value) for value in row)))
            assert isinstance(scheduled, Scheduled)
            np.testing.assert_array_equal(called(scheduler.module_of(scheduled.trace), inputs, shape), wanted)


def called(module: tvm.IRModule, inputs: list[Any], shape: list[int]) -> Any:
    output = tvm.runtime.empty(shape, "float32")
    tvm.tirx.build(module, target=tvm.target.Target({"kind": "llvm", "opt-level": 0}))["main"](
        *map(tvm.runtime.tensor, inputs), output
    )
    return output.numpy()


@pytest.mark.parametrize(
    "module",
    [
        module_of((64, 64), lambda a: lambda i, j: a[i, j] + 1, (64, 64)),
        module_of((64, 64), lambda a, b: lambda i, j: a[i, j] * b[i], (64, 64), (64,)),
        module_of((64, 64), lambda a: lambda i, j: a[i, 0], (64, 1)),
    ],
    ids=["elementwise", "scaled rows", "broadcast"],
)
def test_contiguous_copy_gets_no_tiles(module: tvm.IRModule) -> None:
    assert len(space_of(module).sketches) == 1


def test_reduction_gets_no_movement_tiles() -> None:
    a = te.placeholder((64, 64), "float32", name="A")
    k = te.reduce_axis((0, 64), name="k")
    product = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * a[k, j], axis=k), name="P")
    turned = te.compute((64, 64), lambda i, j: product[j, i], name="T")
    module = tvm.IRModule({"main": te.create_prim_func([a, turned]).with_attr("global_symbol", "main")})
    copies = [step for sketch in space_of(module).sketches for step in sketch.steps.instructions]
    assert not [step for step in copies if step.kind == "Unroll"]


def estimated_cycles(space: SearchSpace, sketch: int, rows_tile: list[int], columns_tile: list[int]) -> float:
    """The estimate for a transpose with these tiles, from the outermost level inwards."""
    chosen = space.sketches[sketch]
    by_slot = {column.slot: column for column in chosen.columns}
    tiles = {"SamplePerfectTile:B.0": rows_tile, "SamplePerfectTile:B.1": columns_tile}
    row = [by_slot[slot].row_of(tile) for slot, tile in tiles.items()]
    assert None not in row
    _, prior = FeatureExtractor(space).features(sketch, np.array([row], np.int32))
    return float(2 ** -prior[0])


def test_cost_prefers_whole_cache_lines_and_copied_tiles() -> None:
    """Measured for 1024x1024 on two cores: 162 us for copied tiles of 16x16, 445 for 4x16, 536 for 16x16 uncopied."""
    space = space_of(transpose(1024, 1024))
    plain, copied = 1, 2
    whole = estimated_cycles(space, copied, [16, 4, 16], [16, 4, 16])
    quarter = estimated_cycles(space, copied, [64, 4, 4], [16, 4, 16])
    uncopied = estimated_cycles(space, plain, [16, 4, 16], [16, 4, 16])
    assert whole < quarter < uncopied
