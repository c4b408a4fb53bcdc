"""Transforms of Winograd's algorithm have a space of their own: tiles of channels."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.products.winograd.convolutions import convolved
from tests.search.scheduled import result_of_floats
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target, host_target, tvm_target
from tunefarm_search.untried.untried_schedule import untried_schedule
from tunefarm_search.validation.memory_bounds import bounds_of

HERE = host_target(1)
THREADS = canonical_target({"kind": "llvm", "mcpu": "haswell"}, 4).target
MODEL = convolved(1, (64, 64), (18, 18), emit=relax.op.nn.silu)


@cache
def transforms(target: Target) -> list[Any]:
    """The functions before and after the products."""
    tasks = model_tasks(prepare(MODEL.module, {"main": MODEL.constants}, target))
    return [load_json(each.workload.module_json) for each in tasks if "transformed" in each.functions[0]]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("number", [0, 1], ids=["inputs", "results"])
def test_tiles_of_channels_compute_the_same(number: int) -> None:
    module = transforms(HERE)[number]
    space = search_space(module, HERE, "stable", Space())
    scheduler, (sketch,) = Scheduler(space), space.sketches
    expected = result_of_floats(module, HERE)
    rows = sketch.all_points()
    assert len(rows) >= 5
    for row in (rows[0], rows[len(rows) // 2]):
        found = scheduler.apply(Point(0, tuple(row.tolist())))
        assert isinstance(found, Scheduled)
        scheduled = scheduler.module_of(found.trace)
        assert bounds_of(scheduled, tvm_target(HERE)).is_proven
        np.testing.assert_allclose(result_of_floats(scheduled, HERE), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("number", [0, 1], ids=["inputs", "results"])
def test_candidates_run_in_threads_where_the_target_has_several(number: int) -> None:
    for target, is_parallel in ((HERE, False), (THREADS, True)):
        module = transforms(target)[number]
        scheduler = Scheduler(search_space(module, target, "stable", Space()))
        found = scheduler.apply(Point(0, (0,)))
        assert isinstance(found, Scheduled)
        assert ("T.parallel" in scheduler.module_of(found.trace).script()) == is_parallel


@pytest.mark.parametrize("number", [0, 1], ids=["inputs", "results"])
def test_untried_schedule_is_a_point_of_the_space(number: int) -> None:
    module = transforms(HERE)[number]
    untried = untried_schedule(module, HERE)
    scheduler = Scheduler(search_space(module, HERE, "stable", Space()))
    assert untried.way == "transform"
    assert isinstance(scheduler.replay(untried.trace), Scheduled)
