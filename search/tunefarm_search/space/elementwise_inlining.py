"""Inlining of an elementary function into the elementwise block that is the only one to read it.

TVM's rule leaves blocks with ``exp`` alone, because each reader would compute it again, and those with a selection,
such as the ``erf`` of GELU. The convolution before an activation such as SiLU, which multiplies a value by its
sigmoid, then has two readers. No sketch computes them in the tiles of the convolution, and all results are written and
read three times. Where one block reads each element once, inlining repeats nothing.
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
    """Inlines a block that TVM's rule leaves alone into its only reader, if that reads each element once."""

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Does nothing; required by the interface."""

    def apply(self, sch: Any, block: Any) -> list[Any]:
        """Return the schedule, in which the block is inlined where that repeats nothing."""
        try:
            while _is_left_alone(sch.get(block).body) and (reader := _only_reader(sch.copy(), block)):
                sch.compute_inline(block)
                block = sch.get_sblock(reader)
        except TVM_ERRORS:
            pass
        return [sch]

    def clone(self) -> Any:
        """Another one."""
        return ElementwiseInlining()


def _only_reader(schedule: Any, block: Any) -> str | None:
    """The name of the only reader of a block, if TVM's rule does not leave it alone and it loads each element once.

    TVM's code generator takes minutes for elementary functions of each other in one expression.
    """
    pattern = access_pattern_in(schedule, block)
    if pattern is None or len(pattern.writes) != 1 or not all(pattern.spatial):
        return None
    readers = schedule.get_consumers(block)
    if len(readers) != 1:
        return None
    body, reading = schedule.get(readers[0]).body, access_pattern_in(schedule, readers[0])
    if reading is None or not all(reading.spatial) or _is_left_alone(body):
        return None
    written = schedule.get(block).writes[0].source
    loads: list[Any] = []
    tvm_ffi.structural_walk(body, (tvm.ir.TensorLoad, loads.append), order="post")
    is_read_once = reading.iterations == pattern.iterations and sum(load.source.same_as(written) for load in loads) == 1
    return str(schedule.get(readers[0]).name_hint) if is_read_once else None


def _is_left_alone(statement: Any) -> bool:
    """Whether TVM's rule leaves a block alone: it has an elementary function or, as ``erf`` has, a selection."""
    calls: list[Any] = []
    selections: list[Any] = []
    tvm_ffi.structural_walk(statement, (tvm.ir.Call, calls.append), order="post")
    tvm_ffi.structural_walk(statement, (tvm.tirx.Select, selections.append), order="post")
    return bool(selections) or any(getattr(call.op, "name", "") in ELEMENTARY_CALLS for call in calls)
