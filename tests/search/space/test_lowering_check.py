"""Schedules for GPUs that TVM cannot lower are rejected before they are built."""

import numpy as np
import pytest
import tvm
from tvm import te, topi

from tests.client.bundle.cuda_functions import gpu_target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.space.scheduling import Point, Rejected, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_workers.builder.cuda_source import cuda_source


# The search space for GPUs loads TVM's tensor intrinsics, which takes half a minute.
@pytest.mark.targets
def test_accepted_candidates_have_source_and_others_are_rejected() -> None:
    data, weight = te.placeholder((1, 96, 56, 56), name="data"), te.placeholder((24, 96, 1, 1), name="weight")
    convolved = topi.nn.conv2d(data, weight, strides=1, padding=0, dilation=1)
    function = te.create_prim_func([data, weight, convolved]).with_attr("global_symbol", "main")
    space = search_space(tvm.IRModule({"main": function}), gpu_target(), "stable", Space())
    scheduler, sketch = Scheduler(space), space.sketches[0]
    rows = sketch.sample(np.random.default_rng(0), 200)
    applied = [scheduler.apply(Point(sketch.number, tuple(row.tolist()))) for row in rows]
    accepted = [each for each in applied if isinstance(each, Scheduled)]
    assert accepted
    for each in accepted:
        assert "__global__" in cuda_source(scheduler.module_of(each.trace), gpu_target().canonical).source
    assert any(isinstance(each, Rejected) and each.message == "LoweringCheck" for each in applied)
