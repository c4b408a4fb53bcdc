"""Products of bfloat16 use the matrix unit of a processor that multiplies it."""

import json
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.scheduled import untried_result
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.space.dot_product_tiling import TileRule
from tunefarm_search.space.matrix_tiling import matrix_tile_schedule
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target, host_target, tvm_target
from tunefarm_search.tvm.tensor_intrinsics.matrix_tiles import MatrixTiles, features_of_tiles, tiles_named
from tunefarm_search.tvm.tensor_intrinsics.tile_elements import BFLOAT16, tile_elements_of
from tunefarm_search.tvm.trace import trace_of
from tunefarm_search.untried.untried_schedule import untried_schedule
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.memory_bounds import bounds_of

SAPPHIRE_RAPIDS = canonical_target({"kind": "llvm", "mcpu": "sapphirerapids"}, 1).target
ZEN_4 = canonical_target({"kind": "llvm", "mcpu": "znver4"}, 1).target
INNER, WIDTH = 256, 192
needs_unit = pytest.mark.skipif(
    BFLOAT16 not in tile_elements_of(host_target(1)), reason="the processor has no matrix unit for bfloat16"
)


def dense(rows: tuple[int, ...], target: Target, inner: int = INNER, width: int = WIDTH) -> PreparedModel:
    """A dense layer with a rectifier, in bfloat16; inputs and results of the model are float32."""
    weights = matrix(inner, width), random_array(width).astype(ml_dtypes.bfloat16)

    def emit(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        narrow = builder.emit(relax.op.astype(given[0], "bfloat16"))
        found = builder.emit(relax.op.matmul(narrow, names[0]))
        found = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(found, names[1]))))
        return relax.op.astype(found, "float32")

    return prepare(one_entry(emit, [(*rows, inner)], weights), {"main": weights}, target)


def matrix(inner: int, width: int) -> Any:
    return random_array(inner, width).astype(ml_dtypes.bfloat16)


def product_in(prepared: PreparedModel) -> Any:
    """The module of the function with the sums; None if they are not in the form of the unit."""
    modules = [each.workload.module_json for each in model_tasks(prepared)]
    return next((load_json(each) for each in modules if "dot_products" in each), None)


def scheduled_for_unit(rows: tuple[int, ...]) -> tuple[Any, Any]:
    module = product_in(dense(rows, SAPPHIRE_RAPIDS))
    schedule = matrix_tile_schedule(module, SAPPHIRE_RAPIDS, TileRule)
    assert schedule is not None
    return module, schedule


@pytest.mark.parametrize("rows", [(4,), (128,), (2, 7), (37,)])
@pytest.mark.quick_cases(2)
def test_schedule_without_trial_multiplies_tiles_within_bounds(rows: tuple[int, ...]) -> None:
    module, schedule = scheduled_for_unit(rows)
    assert untried_schedule(module, SAPPHIRE_RAPIDS).way == "dot products"
    assert "tdpbf16ps" in schedule.mod.script()
    assert features_of_tiles(schedule.mod["main"]) == ("amx_bf16", "amx_tile")
    judged = judged_schedule(module, json.loads(trace_of(schedule).text))
    assert bounds_of(judged.mod, tvm_target(SAPPHIRE_RAPIDS)).is_proven


@pytest.mark.parametrize(
    ("rows", "inner", "width", "target"),
    [
        ((3,), INNER, WIDTH, SAPPHIRE_RAPIDS),
        ((), INNER, WIDTH, SAPPHIRE_RAPIDS),
        ((64,), 128, WIDTH, SAPPHIRE_RAPIDS),
        ((64,), 272, WIDTH, SAPPHIRE_RAPIDS),
        ((64,), INNER, 200, SAPPHIRE_RAPIDS),
        ((64,), INNER, WIDTH, ZEN_4),
    ],
    ids=["few rows", "vector", "few products", "no whole steps", "no whole blocks", "no unit"],
)
def test_other_products_are_of_floats(rows: tuple[int, ...], inner: int, width: int, target: Target) -> None:
    assert product_in(dense(rows, target, inner, width)) is None


@needs_unit
@pytest.mark.parametrize("rows", [(4,), (128,), (2, 7), (37,), (2, 19)])
@pytest.mark.quick_cases(2)
def test_unit_computes_what_floats_compute(rows: tuple[int, ...]) -> None:
    given = random_array(*rows, INNER, seed=1)
    found = untried_result(dense(rows, host_target(1)), (given,))
    narrow = given.astype(ml_dtypes.bfloat16).astype("float32")
    sums = (narrow @ matrix(INNER, WIDTH).astype("float32")).astype(ml_dtypes.bfloat16)
    expected = np.maximum(sums + random_array(WIDTH).astype(ml_dtypes.bfloat16), 0).astype("float32")
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=0.01 * np.abs(expected).max())


@needs_unit
def test_search_has_the_candidate_of_the_unit() -> None:
    space = search_space(product_in(dense((2, 32), host_target(1))), host_target(1), "stable", Space())
    scheduler, (sketch,) = Scheduler(space), space.sketches
    found = [scheduler.apply(Point(0, tuple(row.tolist()))) for row in sketch.all_points()]
    assert [isinstance(each, Scheduled) and "tunefarm.tiles.bf16_add_" in each.trace.text for each in found] == [True]


@pytest.mark.parametrize("tiles", [MatrixTiles(1, 16, 4, 64, elements=BFLOAT16), MatrixTiles(2, 8, 1, 16)])
def test_names_state_what_is_multiplied(tiles: MatrixTiles) -> None:
    assert tiles_named(tiles.adding) == tiles_named(tiles.clearing) == tiles
    assert tiles.adding.startswith("tunefarm.tiles.bf16_add_") == (tiles.elements is BFLOAT16)
