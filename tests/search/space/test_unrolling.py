"""The predicted unrolling matches the compiler's."""

import re

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, tirx

from tests.search.conftest import te_workload
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.features.loop_nest import loop_nests, tracked
from tunefarm_search.features.unrolling import unroll_steps, unrolled
from tunefarm_search.space.access_pattern import StrideCondition, access_pattern
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.tvm.serialization import load_json

UP_TO_UNROLLING = tvm.transform.Sequential(
    [
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
        s_tir.transform.StmtSimplify(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.VectorizeLoop(),
        tirx.transform.UnrollLoop(),
    ]
)
SIMPLIFIED = tvm.transform.Sequential([UP_TO_UNROLLING, s_tir.transform.StmtSimplify()])
UPDATE = re.compile(r"^( *)(\w+)\[.*\] = \2\[.*\] \+ ")


def longest_body(module: tvm.IRModule) -> int:
    """Number of consecutive updates of a sum."""
    longest, run, before = 0, 0, None
    for line in module["main"].script().splitlines():
        found = UPDATE.match(line)
        here = found.groups() if found else None
        run = run + 1 if here is not None and here == before else int(here is not None)
        longest, before = max(longest, run), here
    return longest


def test_unrolling_omits_positions_skipped_by_strides(target: Target) -> None:
    module = load_json(te_workload("T2D").module_json)
    space = search_space(module, target, "stable", Space())
    scheduler, random, seen = Scheduler(space), np.random.default_rng(3), set()
    for sketch in space.sketches:
        (nest,) = (nest for nest in loop_nests(module, sketch, tracked(module, sketch)) if nest.pattern.writes)
        rows = sketch.sample(random, 10)
        foreseen = unrolled(nest, nest.extents(sketch, rows), unroll_steps(sketch, rows))
        for number in np.flatnonzero((foreseen["unrolled"] <= 64) & (foreseen["unrolled"] > 1)):
            scheduled = scheduler.apply(Point(sketch.number, tuple(rows[number].tolist())))
            if isinstance(scheduled, Scheduled):
                left = longest_body(SIMPLIFIED(scheduler.module_of(scheduled.trace)))
                skipped = foreseen["skipped"][number]
                assert left == foreseen["unrolled"][number] / skipped, (sketch.number, rows[number])
                seen.add(float(skipped))
    assert {1.0, 2.0} <= seen


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("space_name", ["matmul_space", "convolution_space"])
def test_unrolled_body_matches_prediction(space_name: str, request: pytest.FixtureRequest) -> None:
    space: SearchSpace = request.getfixturevalue(space_name)
    scheduler, random = Scheduler(space), np.random.default_rng(1)
    seen: set[int] = set()
    for sketch in space.sketches:
        (nest,) = (
            nest for nest in loop_nests(space.module, sketch, tracked(space.module, sketch)) if nest.pattern.writes
        )
        rows = sketch.sample(random, 6)
        steps = unroll_steps(sketch, rows)
        foreseen = unrolled(nest, nest.extents(sketch, rows), steps)
        parts = np.prod([column for name, column in foreseen.items() if name != "unrolled"], axis=0)
        assert (parts == foreseen["unrolled"]).all()
        for number, row in enumerate(rows):
            scheduled = scheduler.apply(Point(sketch.number, tuple(row.tolist())))
            if isinstance(scheduled, Scheduled):
                length = longest_body(UP_TO_UNROLLING(scheduler.module_of(scheduled.trace)))
                assert length == foreseen["unrolled"][number], (sketch.number, row, steps[number])
                seen.add(length)
    assert len(seen) >= 5


def test_data_condition_is_not_a_stride_condition() -> None:
    data = te.placeholder((16, 16), name="A", dtype="int32")
    k = te.reduce_axis((0, 16), name="k")
    kept = te.compute(
        (16,),
        lambda i: te.sum(
            te.if_then_else(te.all(data[i, k] % 3 == 0, (i + 2 * k) % 4 == 0), data[i, k], te.const(0, "int32")),
            axis=k,
        ),
        name="kept",
    )
    pattern = access_pattern(tvm.IRModule({"main": te.create_prim_func([data, kept])}), "kept")
    assert pattern is not None
    assert pattern.conditions == (StrideCondition(4, (0, 1)),)
