import numpy as np
import tvm
from tvm import te
from tvm.s_tir.meta_schedule.testing.te_workload import batch_matmul_nkkm

from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.strategy.warm_start import nearest_point
from tunefarm_search.tvm.workload import workload_of


def test_trace_of_another_shape_becomes_nearest_point(matmul_space: SearchSpace, target: Target) -> None:
    other = workload_of(te.create_prim_func(batch_matmul_nkkm(1, 96, 160, 64)))
    space = search_space(tvm.ir.load_json(other.module_json), target, "stable", Space())
    sketch = matmul_space.sketches[1]
    row = sketch.sample(np.random.default_rng(2), 1)[0]
    applied = Scheduler(matmul_space).apply(Point(1, tuple(row.tolist())))
    assert isinstance(applied, Scheduled)
    point = nearest_point(space, applied.trace)
    assert point is not None
    assert point.sketch == 1
    mine = space.sketches[1].decisions(point.row)
    theirs = sketch.decisions(row)
    for column in sketch.columns:
        if column.kind == "tile":
            assert abs(np.log2(mine[column.instruction][-1] / theirs[column.instruction][-1])) <= 3
    assert isinstance(Scheduler(space).apply(point), Scheduled)


def test_trace_of_another_structure_cannot_seed(convolution_space: SearchSpace, matmul_space: SearchSpace) -> None:
    row = convolution_space.sketches[0].sample(np.random.default_rng(2), 1)[0]
    applied = Scheduler(convolution_space).apply(Point(0, tuple(row.tolist())))
    assert isinstance(applied, Scheduled)
    assert nearest_point(matmul_space, applied.trace) is None
    assert nearest_point(matmul_space, Trace(text="nonsense")) is None
