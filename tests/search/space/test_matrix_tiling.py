"""Sums of products of 8-bit integers use the matrix unit of a processor that has one."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm

from tests.search.relax.integer.quantized_networks import QuantizedLayer
from tests.search.scheduled import build_quickly
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.space.dot_product_tiling import TileRule, dot_product_schedule
from tunefarm_search.space.matrix_tiling import matrix_tile_schedule
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target, host_target, tvm_target
from tunefarm_search.tvm.tensor_intrinsics.matrix_tiles import MatrixTiles, tiles_named
from tunefarm_search.tvm.tensor_intrinsics.tile_elements import tile_elements_of
from tunefarm_search.tvm.trace import trace_of
from tunefarm_search.untried.untried_schedule import untried_schedule
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.judgement import NotPermitted, require_permitted
from tunefarm_search.validation.memory_bounds import bounds_of
from tunefarm_search.validation.trace_application import intrinsics_in
from tunefarm_workers.builder.scheduled_module import build_scheduled

SAPPHIRE_RAPIDS = canonical_target({"kind": "llvm", "mcpu": "sapphirerapids"}, 1).target
ZEN_4 = canonical_target({"kind": "llvm", "mcpu": "znver4"}, 1).target
LAYERS = {
    "matrix product": QuantizedLayer(0, (256, 32), size=8),
    "matrix product of many rows": QuantizedLayer(0, (320, 80), size=96),
    "along a line": QuantizedLayer(1, (64, 32), size=20, kernel=4, stride=2, padding=(1, 1), channels_last=True),
    "image": QuantizedLayer(2, (64, 64), size=14, kernel=3, padding=(1, 1), channels_last=True),
    "strides": QuantizedLayer(2, (32, 48), size=16, kernel=3, stride=2, padding=(1, 1), channels_last=True),
    "dilated": QuantizedLayer(2, (40, 16), size=12, kernel=3, dilation=2, padding=(2, 2), channels_last=True),
    "runs across positions": QuantizedLayer(2, (32, 32), size=16, kernel=3, padding=(1, 1), channels_last=True),
    "few channels": QuantizedLayer(2, (3, 32), size=28, kernel=7, stride=2, padding=(3, 3)),
    "no full block": QuantizedLayer(2, (64, 30), size=8, kernel=3, padding=(1, 1), channels_last=True, output=None),
}
layers = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)


@cache
def module_for(layer: QuantizedLayer, target: Target = SAPPHIRE_RAPIDS) -> Any:
    (task, *_) = [
        each for each in model_tasks(prepare(layer.module(), {}, target)) if "dot_products" in each.workload.module_json
    ]
    return load_json(task.workload.module_json)


@cache
def scheduled(layer: QuantizedLayer) -> Any:
    found = matrix_tile_schedule(module_for(layer), SAPPHIRE_RAPIDS, TileRule)
    assert found is not None
    return found


@layers
@pytest.mark.quick_cases(3)
def test_untried_schedules_multiply_tiles(layer: QuantizedLayer) -> None:
    found = untried_schedule(module_for(layer), SAPPHIRE_RAPIDS)
    assembly = build_scheduled(found.module, tvm_target(SAPPHIRE_RAPIDS)).inspect_source("asm")
    assert "tdpbusd" in assembly
    assert "vpdpbusd" not in assembly


@pytest.mark.parametrize(
    "layer",
    [
        QuantizedLayer(2, (3, 64), size=112, kernel=7, stride=2, padding=(3, 3)),
        QuantizedLayer(2, (64, 64), size=28, kernel=3, padding=(1, 1), channels_last=True),
        QuantizedLayer(0, (768, 768), size=64),
    ],
    ids=["few channels", "image", "matrix product"],
)
@pytest.mark.quick_cases(2)
def test_threads_multiply_tiles(layer: QuantizedLayer) -> None:
    target = canonical_target({"kind": "llvm", "mcpu": "sapphirerapids"}, 2).target
    found = untried_schedule(module_for(layer, target), target)
    assert "T.parallel" in found.module.script()
    assert "tdpbusd" in found.module.script()


@layers
@pytest.mark.quick_cases(5)
def test_every_access_is_proven(layer: QuantizedLayer) -> None:
    trace = trace_of(scheduled(layer))
    judged = judged_schedule(module_for(layer), json.loads(trace.text))
    assert bounds_of(judged.mod, tvm_target(SAPPHIRE_RAPIDS)).is_proven


@pytest.mark.skipif(not tile_elements_of(host_target(1)), reason="the processor has no matrix unit")
@layers
@pytest.mark.quick_cases(3)
def test_sums_equal_those_of_vectors(layer: QuantizedLayer) -> None:
    module = module_for(layer)
    vectors = dot_product_schedule(module, SAPPHIRE_RAPIDS, TileRule)
    assert (result_of(scheduled(layer).mod) == result_of(vectors.mod)).all()


@pytest.mark.skipif(not tile_elements_of(host_target(1)), reason="the processor has no matrix unit")
def test_every_candidate_computes_the_same() -> None:
    layer = LAYERS["image"]
    module = module_for(layer)
    space = search_space(module, SAPPHIRE_RAPIDS, "stable", Space())
    scheduler, (sketch,) = Scheduler(space), space.sketches
    expected = result_of(scheduled(layer).mod)
    found = [scheduler.apply(Point(0, tuple(row.tolist()))) for row in sketch.all_points()]
    assert len(found) > 1
    for each in found:
        assert isinstance(each, Scheduled)
        assert "tunefarm.tiles_add_" in each.trace.text
        assert (result_of(scheduler.module_of(each.trace)) == expected).all()


def test_functions_ask_for_the_registers() -> None:
    library = build_scheduled(scheduled(LAYERS["image"]).mod, tvm_target(SAPPHIRE_RAPIDS))
    assembly = library.inspect_source("asm")
    assert "syscall" in assembly
    assert assembly.index("syscall") < assembly.index("ldtilecfg")
    vectors = dot_product_schedule(module_for(LAYERS["image"], ZEN_4), ZEN_4, TileRule)
    assert "syscall" not in build_scheduled(vectors.mod, tvm_target(ZEN_4)).inspect_source("asm")


@pytest.mark.parametrize(
    "layer",
    [
        QuantizedLayer(2, (64, 64), size=14),
        QuantizedLayer(0, (512, 64), size=3),
        QuantizedLayer(0, (512, 64), size=17),
        QuantizedLayer(2, (4, 64), size=14, kernel=7, dilation=2),
    ],
    ids=["few products", "few rows", "rows that make no tiles", "few products of each instruction"],
)
def test_sums_that_do_not_suit_tiles_stay_in_vectors(layer: QuantizedLayer) -> None:
    assert matrix_tile_schedule(module_for(layer), SAPPHIRE_RAPIDS, TileRule) is None


def test_processors_without_the_unit_use_vectors() -> None:
    assert matrix_tile_schedule(module_for(LAYERS["image"], ZEN_4), ZEN_4, TileRule) is None


def test_only_traces_may_add_these_instructions() -> None:
    layer = LAYERS["image"]
    found = scheduled(layer)
    with pytest.raises(NotPermitted, match="address_of"):
        require_permitted(found.mod)
    require_permitted(found.mod, with_tiles=True)
    with pytest.raises(NotPermitted, match="address_of"):
        judged_schedule(found.mod, json.loads(trace_of(found).text))


def test_parts_of_two_intrinsics_are_refused() -> None:
    layer = LAYERS["matrix product"]
    text = trace_of(scheduled(layer)).text
    (tiles,) = {tiles_named(name) for name in intrinsics_in(json.loads(text))}
    assert tiles is not None
    larger = replace(tiles, row_tiles=1, rows=tiles.positions)
    assert larger != tiles
    judged_schedule(module_for(layer), json.loads(text))
    with pytest.raises(NotPermitted, match="several intrinsics"):
        judged_schedule(module_for(layer), json.loads(text.replace(tiles.clearing, larger.clearing)))


@pytest.mark.parametrize("access", ["T.address_of(B[", "T.evaluate(B[", "T.address_of(C[", "T.evaluate(C["])
@pytest.mark.quick_cases(2)
def test_first_and_last_elements_of_a_tile_are_checked(access: str) -> None:
    text = scheduled(LAYERS["matrix product"]).mod.script()
    assert access in text
    moved = tvm.script.from_source(text.replace(access, f"{access}T.int64(100000) + ", 1))
    assert bounds_of(moved, tvm_target(SAPPHIRE_RAPIDS)).outside is not None


@pytest.mark.parametrize(
    "tiles",
    [MatrixTiles(2, 14, 2, 16, (3, 3), 1, (1, 1)), MatrixTiles(1, 16, 4, 64), MatrixTiles(1, 4, 1, 8, (3,), 2, (2,))],
)
def test_names_state_the_shapes(tiles: MatrixTiles) -> None:
    assert tiles_named(tiles.adding) == tiles_named(tiles.clearing) == tiles


@pytest.mark.parametrize(
    "name",
    [
        "tunefarm.tiles",
        "tunefarm.tiles_add_2x14x2_16_3x3_1_1",
        "tunefarm.tiles_add_0x14x2_16_3x3_1_1x1",
        "tunefarm.tiles_add_2x17x2_16_3x3_1_1x1",
        "tunefarm.tiles_add_4x16x4_16_3x3_1_1x1",
        "tunefarm.tiles_add_2x16x2_99999999_3x3_1_1x1",
        "tunefarm.tiles_other_2x14x2_16_3x3_1_1x1",
    ],
)
def test_other_names_are_of_no_intrinsic(name: str) -> None:
    assert tiles_named(name) is None


def result_of(module: Any) -> Any:
    generator = np.random.default_rng(1)
    arguments = [tensor_for(each, generator) for each in module["main"].params]
    build_quickly(module, tvm_target(SAPPHIRE_RAPIDS))["main"](*arguments)
    return arguments[-1].numpy()


def tensor_for(parameter: Any, generator: np.random.Generator) -> Any:
    shape = tuple(int(extent) for extent in parameter.shape)
    kind = np.dtype(str(parameter.dtype))
    if kind.kind == "f":
        return tvm.runtime.tensor(generator.standard_normal(shape).astype(kind))
    return tvm.runtime.tensor(generator.integers(-100 if kind.kind == "i" else 0, 100, shape).astype(kind))
