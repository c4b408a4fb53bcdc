import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te
from tvm.s_tir.meta_schedule.testing.te_workload import batch_matmul_nkkm

from tunefarm_schemas.tuning.measurement import CandidateOrigin
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_search.loop.loop import DEFAULTS
from tunefarm_search.loop.task_search import SearchTask, TaskSearch
from tunefarm_search.ports import RecordsInMemory
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.strategy.warm_start import nearest_point
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.workload import workload_of


def test_trace_of_another_shape_becomes_nearest_point(matmul_space: SearchSpace, target: Target) -> None:
    other = workload_of(te.create_prim_func(batch_matmul_nkkm(1, 96, 160, 64)))
    space = search_space(load_json(other.module_json), target, "stable", Space())
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


def matmul_json(extents: tuple[int, int, int]) -> str:
    return workload_of(te.create_prim_func(batch_matmul_nkkm(1, *extents))).module_json


def drawn_traces(space: SearchSpace, seed: int, count: int) -> list[Trace]:
    """Traces of random schedules, as records keep them."""
    scheduler, found = Scheduler(space), []
    for number in range(count):
        sketch = space.sketches[(seed + number) % len(space.sketches)]
        row = sketch.sample(np.random.default_rng([seed, number]), 1)[0]
        applied = scheduler.apply(Point(sketch.number, tuple(row.tolist())))
        if isinstance(applied, Scheduled):
            found.append(applied.trace)
    return found


extents = st.sampled_from([8, 12, 24, 32, 56, 64, 96, 128])
shapes = st.tuples(extents, extents, extents)


@settings(max_examples=2)
@given(theirs=shapes, own=shapes, seed=st.integers(0, 1000))
def test_adapted_schedules_follow_the_untried_one_in_the_first_batches_of_a_model(
    theirs: tuple[int, int, int], own: tuple[int, int, int], seed: int, target: Target
) -> None:
    other = search_space(load_json(matmul_json(theirs)), target, "stable", Space())
    near = drawn_traces(other, seed, 4)
    task = SearchTask("own", matmul_json(own), target, of_model=True)
    search = TaskSearch(task, "evolutionary", seed, 64, RecordsInMemory(traces={"own": near}))
    first = [*search.propose(1), *search.propose(DEFAULTS.batch_candidates)]
    points = [nearest_point(search.space, trace) for trace in near]
    assert None not in points, "a schedule of another shape has no counterpart"
    applied = [Scheduler(search.space).apply(point) for point in dict.fromkeys(points) if point is not None]
    hashes = dict.fromkeys(each.module_hash for each in applied if isinstance(each, Scheduled))
    assert first[0].origin is CandidateOrigin.UNTRIED
    adapted = [module_hash for module_hash in hashes if module_hash != first[0].module_hash]
    assert [each.module_hash for each in first[1 : len(adapted) + 1]] == adapted
    assert all(each.origin is CandidateOrigin.STORE for each in first[1 : len(adapted) + 1])
    assert all(each.origin is not CandidateOrigin.STORE for each in first[len(adapted) + 1 :])


@settings(max_examples=4)
@given(own=shapes, seed=st.integers(0, 1000))
def test_nearest_point_of_the_same_shape_is_the_point_itself(
    own: tuple[int, int, int], seed: int, target: Target
) -> None:
    space = search_space(load_json(matmul_json(own)), target, "stable", Space())
    for trace in drawn_traces(space, seed, 3):
        assert nearest_point(space, trace) == Scheduler(space).point_of(trace)
