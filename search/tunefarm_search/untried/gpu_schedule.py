"""A schedule for any function on a GPU before anything is measured: what TVM's rules for GPUs (DLight) choose."""

from dataclasses import dataclass
from typing import Any, Final

from tvm.s_tir import dlight

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm.errors import TVM_ERRORS
from tunefarm_search.tvm.target import tvm_target
from tunefarm_search.tvm.workload import ENTRY

_RULES: Final = (
    ("matrix product", dlight.gpu.Matmul),
    ("matrix-vector product", dlight.gpu.GEMV),
    ("reduction", dlight.gpu.Reduction),
    ("reductions", dlight.gpu.GeneralReduction),
    ("transpose", dlight.gpu.Transpose),
    ("spread", dlight.gpu.Fallback),
)
"""In DLight's order: the first rule that knows the function's pattern schedules it."""
_IS_SCHEDULED: Final = "tirx.is_scheduled"


@dataclass(frozen=True)
class GpuSchedule:
    """TVM's ``IRModule`` with the scheduled function ``main``, and the rule that scheduled it.

    Rules rewrite a function before they schedule it, so there is no trace that applies to the function as it was.
    """

    module: Any
    way: str


def gpu_schedule(module: Any, target: Target) -> GpuSchedule | None:
    """Schedule ``main`` of a module for a GPU; None if no rule knows it."""
    device = tvm_target(target)
    for way, rule in _RULES:
        try:
            with device:
                found = rule().apply(module[ENTRY], device, False)
        except TVM_ERRORS:
            continue
        if found is not None and _is_bound(found):
            scheduled = found.mod[ENTRY].with_attr(_IS_SCHEDULED, True)
            return GpuSchedule(type(module)({ENTRY: scheduled}), way)
    return None


def _is_bound(schedule: Any) -> bool:
    """Whether all loop nests run on threads. A rule may leave one as it is that follows those which it knows."""
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    loops = [[schedule.get(loop) for loop in schedule.get_loops(block)] for block in blocks]
    return all(any(loop.thread_binding is not None for loop in each) for each in loops)
