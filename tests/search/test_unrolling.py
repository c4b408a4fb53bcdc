"""What is foreseen of unrolling is what the compiler does."""

import re

import numpy as np
import pytest
import tvm
from tvm import s_tir, tirx

from tunefarm_search.loop_nest import loop_nests
from tunefarm_search.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space import SearchSpace
from tunefarm_search.unrolling import unroll_steps, unrolled

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
UPDATE = re.compile(r"^( *)(\w+)\[.*\] = \2\[.*\] \+ ")


def longest_body(module: tvm.IRModule) -> int:
    """How many updates of a sum stand one below the other."""
    longest, run, before = 0, 0, None
    for line in UP_TO_UNROLLING(module)["main"].script().splitlines():
        found = UPDATE.match(line)
        here = found.groups() if found else None
        run = run + 1 if here is not None and here == before else int(here is not None)
        longest, before = max(longest, run), here
    return longest


@pytest.mark.parametrize("space_name", ["matmul_space", "convolution_space"])
def test_the_body_is_as_long_as_foreseen(space_name: str, request: pytest.FixtureRequest) -> None:
    space: SearchSpace = request.getfixturevalue(space_name)
    scheduler, random = Scheduler(space), np.random.default_rng(1)
    seen: set[int] = set()
    for sketch in space.sketches:
        (nest,) = (nest for nest in loop_nests(space.module, sketch) if nest.pattern.writes)
        rows = sketch.sample(random, 6)
        steps = unroll_steps(sketch, rows)
        foreseen = unrolled(nest, nest.extents(sketch, rows), steps)
        parts = np.prod([column for name, column in foreseen.items() if name != "unrolled"], axis=0)
        assert (parts == foreseen["unrolled"]).all()
        for number, row in enumerate(rows):
            scheduled = scheduler.apply(Point(sketch.number, tuple(row.tolist())))
            if isinstance(scheduled, Scheduled):
                length = longest_body(scheduler.module_of(scheduled.trace))
                assert length == foreseen["unrolled"][number], (sketch.number, row, steps[number])
                seen.add(length)
    assert len(seen) >= 5
