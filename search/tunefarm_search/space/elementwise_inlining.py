"""Inlining of an elementary function into the elementwise block that is the only one to read it.

TVM's rule leaves blocks with ``exp`` alone, because each reader would compute it again. The convolution before an
activation such as SiLU, which multiplies a value by its sigmoid, then has two readers. No sketch computes them in the
tiles of the convolution, and all results are written and read three times. Where one block reads each element once,
inlining repeats nothing.
"""

from typing import Any, Final

import tvm
import tvm_ffi
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule

from tunefarm_search.space.access_pattern import access_pattern_in
from tunefarm_search.tvm.errors import TVM_ERRORS

ELEMENTARY_CALLS: Final = ("tirx.exp", "tirx.reinterpret")
"""Calls of blocks that compute ``exp``, by a function or by arithmetic and bits."""


@derived_object
class ElementwiseInlining(meta_schedule.schedule_rule.PyScheduleRule):  # type: ignore[misc]
    """Inlines a block with an elementary function into its only reader, if that reads each element once."""

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Does nothing; required by the interface."""

    def apply(self, sch: Any, block: Any) -> list[Any]:
        """Return the schedule, in which the block is inlined where that repeats nothing."""
        try:
            while _has_elementary_call(sch.get(block).body) and (reader := _only_reader(sch.copy(), block)):
                sch.compute_inline(block)
                block = sch.get_sblock(reader)
        except TVM_ERRORS:
            pass
        return [sch]

    def clone(self) -> Any:
        """Another one."""
        return ElementwiseInlining()


def _only_reader(schedule: Any, block: Any) -> str | None:
    """The name of the only reader of a block, if it has no elementary function and loads each element once.

    TVM's code generator takes minutes for elementary functions of each other in one expression.
    """
    pattern = access_pattern_in(schedule, block)
    if pattern is None or len(pattern.writes) != 1 or not all(pattern.spatial):
        return None
    readers = schedule.get_consumers(block)
    if len(readers) != 1:
        return None
    body, reading = schedule.get(readers[0]).body, access_pattern_in(schedule, readers[0])
    if reading is None or not all(reading.spatial) or _has_elementary_call(body):
        return None
    written = schedule.get(block).writes[0].source
    loads: list[Any] = []
    tvm_ffi.structural_walk(body, (tvm.ir.TensorLoad, loads.append), order="post")
    is_read_once = reading.iterations == pattern.iterations and sum(load.source.same_as(written) for load in loads) == 1
    return str(schedule.get(readers[0]).name_hint) if is_read_once else None


def _has_elementary_call(statement: Any) -> bool:
    calls: list[Any] = []
    tvm_ffi.structural_walk(statement, (tvm.ir.Call, calls.append), order="post")
    return any(getattr(call.op, "name", "") in ELEMENTARY_CALLS for call in calls)
