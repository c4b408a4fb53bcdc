import json
from typing import Any

import tvm
import tvm_ffi
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace as TvmTrace

from tunefarm_search.tvm.trace import plain, trace_of


def matmul() -> tvm.IRModule:
    left, right = te.placeholder((16, 8), name="A"), te.placeholder((8, 32), name="B")
    k = te.reduce_axis((0, 8), name="k")
    product = te.compute((16, 32), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="C")
    return tvm.IRModule({"main": te.create_prim_func([left, right, product])})


def test_trace_matches_tvm_and_replays_to_the_same_schedule() -> None:
    schedule = Schedule(matmul(), seed=1)
    block = schedule.get_sblock("C")
    schedule.transform_layout(block, buffer=("read", 1), index_map=lambda k, j: (j // 8, k, j % 8))
    rows, columns, _ = schedule.get_loops(block)
    schedule.split(rows, factors=schedule.sample_perfect_tile(rows, n=3))
    steps = schedule.sample_categorical([0, 16, 64], [0.25, 0.25, 0.5])
    schedule.annotate(columns, ann_key="pragma_auto_unroll_max_step", ann_val=steps)
    schedule.annotate(columns, ann_key="note", ann_val={"of": [1, "two", 0.5]})
    trace = trace_of(schedule)
    assert json.loads(trace.text) == plain(schedule.trace.as_json())
    assert replays_to(trace.as_json(), matmul(), schedule)


def replays_to(steps: Any, module: tvm.IRModule, schedule: Schedule) -> bool:
    replayed = Schedule(module)
    TvmTrace.apply_json_to_schedule(steps, replayed)
    return bool(tvm_ffi.structural_equal(replayed.mod, schedule.mod))
