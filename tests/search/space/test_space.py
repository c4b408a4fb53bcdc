import subprocess
import sys
from typing import Any

import pytest
import tvm

from tests.search.conftest import te_workload
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Sketch, Space, Trace
from tunefarm_search.space.scheduling import Rejected, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, postprocessors, search_space, sketches_of
from tunefarm_search.tvm.trace import steps_of, trace_of


def matmul() -> Any:
    return tvm.ir.load_json(te_workload("GMM").module_json)


def schedule_by_hand(schedule: Any) -> None:
    block = schedule.get_sblock("Z")
    _, row, column, inner = schedule.get_loops(block)
    rows = schedule.split(row, schedule.sample_perfect_tile(row, n=2, max_innermost_factor=32))
    columns = schedule.split(column, schedule.sample_perfect_tile(column, n=2, max_innermost_factor=32))
    schedule.reorder(rows[0], columns[0], inner, rows[1], columns[1])


def schedule_in_two_ways(schedule: Any) -> Any:
    block = schedule.get_sblock("Z")
    loops = schedule.get_loops(block)
    if int(schedule.get(schedule.sample_categorical([0, 1], [0.5, 0.5]))) == 1:
        schedule.reorder(loops[2], loops[1])
    return schedule


def test_schedule_function_becomes_sketch_without_decisions(target: Target) -> None:
    sketches = sketches_of(schedule_by_hand, matmul(), target)
    assert len(sketches) == 1
    assert steps_of(sketches[0]).decisions == {}
    space = search_space(matmul(), target, "stable", Space(automatic=False, sketches=sketches))
    assert [column.kind for column in space.sketches[0].columns] == ["tile", "tile"]
    # 128 = 2**7 into two factors with the inner at most 32.
    assert space.points == 36


def test_branching_schedule_function_produces_several_sketches(target: Target) -> None:
    assert len(sketches_of(schedule_in_two_ways, matmul(), target)) == 2


def test_failing_schedule_function_is_bad_input(target: Target) -> None:
    with pytest.raises(BadInput, match="failed"):
        sketches_of(lambda schedule: schedule.get_sblock("nowhere"), matmul(), target)
    with pytest.raises(BadInput, match="returns no schedule"):
        sketches_of(lambda schedule: 42, matmul(), target)


def test_sketches_that_do_not_fit_are_bad_input(target: Target) -> None:
    foreign = Sketch(text='[[["GetSBlock",[],["nowhere","main"],["b0"]]],[]]')
    with pytest.raises(BadInput, match="none of its sketches fits"):
        search_space(matmul(), target, "stable", Space(automatic=False, sketches=(foreign,)))


def test_layout_rewrite_requires_packed_abi(target: Target) -> None:
    def names(abi: Any) -> set[str]:
        return {type(step).__name__ for step in postprocessors(matmul(), target, abi)}

    assert names("packed") - names("stable") == {"RewriteLayout"}


def test_vnni_target_gets_tiled_sketches_without_tensorization(target: Target) -> None:
    space = search_space(matmul(), target, "stable", Space())
    assert len(space.sketches) == 3
    assert all("Blockize" not in sketch.steps.sketch.text for sketch in space.sketches)


def test_seed_trace_adds_its_sketch(matmul_space: SearchSpace) -> None:
    schedule = tvm.s_tir.Schedule(matmul_space.module, seed=7)
    schedule_by_hand(schedule)
    seed = trace_of(schedule)
    widened = matmul_space.with_sketch_of(seed)
    assert len(widened.sketches) == len(matmul_space.sketches) + 1
    assert widened.with_sketch_of(seed) is widened
    applied = Scheduler(widened).replay(seed)
    assert isinstance(applied, Scheduled)
    assert applied.point is not None
    assert applied.point.sketch == 3


UNFIT = '[[["GetSBlock",[],["nowhere","main"],["b0"]]],[]]'
UNKNOWN = '[[["Nonsense",[],[],[]]],[]]'


@pytest.mark.parametrize("text", [UNFIT, UNKNOWN, "[1, 2]", "null", "[[],[[0]]]"])
def test_replay_rejects_invalid_trace(text: str, matmul_space: SearchSpace) -> None:
    assert isinstance(Scheduler(matmul_space).replay(Trace(text=text)), Rejected)


@pytest.mark.parametrize(("dtype", "out"), [("bfloat16", "bfloat16"), ("bfloat16", "float32")])
def test_bfloat16_results_are_vectorized(target: Target, dtype: str, out: str) -> None:
    left = tvm.te.placeholder((64, 64), dtype, name="A")
    right = tvm.te.placeholder((64, 64), dtype, name="B")
    axis = tvm.te.reduce_axis((0, 64), name="k")
    product = tvm.te.compute(
        (64, 64), lambda i, j: tvm.te.sum(left[i, axis].astype(out) * right[axis, j].astype(out), axis=axis), name="C"
    )
    module = tvm.IRModule({"main": tvm.te.create_prim_func([left, right, product])})
    space = search_space(module, target, "stable", Space())
    texts = [sketch.steps.sketch.text for sketch in space.sketches]
    assert any("meta_schedule.vectorize" in text for text in texts)
    assert all("meta_schedule.parallel" in text for text in texts)


@pytest.mark.faults
def test_space_of_processor_or_gpu_loads_no_intrinsics() -> None:
    """Loading them takes a sixth of a tuner's start time, and far longer where many modules are loaded."""
    code = """
import sys, tvm
from tests.search.conftest import te_workload
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.target import canonical_target

def loaded_for(kind, **target):
    given = canonical_target({"kind": kind, **target}).target
    assert search_space(tvm.ir.load_json(te_workload("GMM").module_json), given, "stable", Space()).sketches
    return {name for name in sys.modules if name.startswith("tvm.s_tir.tensor_intrin.")}

assert not loaded_for("llvm", mcpu="znver4", **{"num-cores": 2})
assert not loaded_for("llvm", mtriple="aarch64-linux-gnu", mcpu="cortex-a72", **{"num-cores": 2})
assert not loaded_for("cuda", arch="sm_90", max_threads_per_block=1024, max_shared_memory_per_block=49152)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=150)
