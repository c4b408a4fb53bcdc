"""A schedule for any function on a GPU before anything is measured: what TVM's rules for GPUs (DLight) choose."""

from dataclasses import dataclass
from typing import Any, Final

from tvm.s_tir import dlight

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm.errors import TVM_ERRORS
from tunefarm_search.tvm.quick_decorators import quick_decorators
from tunefarm_search.tvm.target import tvm_target
from tunefarm_search.tvm.workload import ENTRY
from tunefarm_search.validation.memory_bounds import bounds_of

_FALLBACK: Final = "spread"
_RULES: Final = (
    ("matrix product", dlight.gpu.Matmul),
    ("matrix-vector product", dlight.gpu.GEMV),
    ("reduction", dlight.gpu.Reduction),
    ("reductions", dlight.gpu.GeneralReduction),
    ("transpose", dlight.gpu.Transpose),
    (_FALLBACK, dlight.gpu.Fallback),
)
"""In DLight's order: the first rule that knows the function's pattern, and whose accesses stay inside, schedules it."""
_IS_SCHEDULED: Final = "tirx.is_scheduled"


@dataclass(frozen=True)
class GpuSchedule:
    """TVM's ``IRModule`` with the scheduled function ``main``, and the rule that scheduled it.

    Rules rewrite a function before they schedule it, so there is no trace that applies to the function as it was.
    """

    module: Any
    way: str


def gpu_schedule(module: Any, target: Target) -> GpuSchedule | None:
    """Schedule ``main`` of a module for a GPU; None if no rule knows it.

    TVM's pass ``LowerCrossThreadReduction`` drops the condition of a last, partial block, so that the rule for
    matrix-vector products writes beyond an output whose rows are no multiple of 16. A schedule is therefore used only
    if all of its accesses are proven to stay inside. The last rule needs no proof: it reduces in one thread, and what
    cannot be proven of its schedule, such as an index read from a tensor, can be proven of no other.
    """
    device = tvm_target(target)
    for way, rule in _RULES:
        try:
            with device, quick_decorators():  # a rule may load tensor intrinsics
                found = rule().apply(module[ENTRY], device, False)
        except TVM_ERRORS:
            continue
        if found is None or not _is_bound(found):
            continue
        scheduled = type(module)({ENTRY: found.mod[ENTRY].with_attr(_IS_SCHEDULED, True)})
        if way == _FALLBACK or _stays_inside(scheduled, device):
            return GpuSchedule(scheduled, way)
    return None


def _stays_inside(module: Any, device: Any) -> bool:
    try:
        return bounds_of(module, device).is_proven
    except TVM_ERRORS:
        return False


def _is_bound(schedule: Any) -> bool:
    """Whether all loop nests run on threads. A rule may leave one as it is that follows those which it knows."""
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    loops = [[schedule.get(loop) for loop in schedule.get_loops(block)] for block in blocks]
    return all(any(loop.thread_binding is not None for loop in each) for each in loops)
