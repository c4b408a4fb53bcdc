"""Checks that a schedule that may become a record accesses only its tensors.

Guard zones detect writes next to a tensor, but neither reads nor accesses beyond the zones.
"""

from collections.abc import Sequence
from typing import Any, Final

from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_search.validation.memory_bounds import Bounds
from tunefarm_workers.builder.scheduled_module import build_scheduled
from tunefarm_workers.builder.shipped_module import ShippedModule, changed_signature
from tunefarm_workers.child.candidate import broken
from tunefarm_workers.child.kernel import Kernel
from tunefarm_workers.child.task_process import HeldTask
from tunefarm_workers.conversation.messages import Broken
from tunefarm_workers.correctness.inputs import INPUT_SETS

PROCESSORS: Final = ("llvm", "c")
"""Target kinds for which every access must be proven or checked. Others use pointers in TVM's tensor intrinsics and
cannot compile assertions."""
_MESSAGE_CHARACTERS: Final = 3000


def refusal(
    shipped: ShippedModule, arguments: Sequence[TensorArgument], bounds: Bounds, kind: str = "llvm"
) -> Broken | None:
    """Return why a schedule for a target of that kind must not be called, or None."""
    changed = changed_signature(shipped, arguments)
    if changed is not None:
        return Broken(reason=FailureReason.INVALID_SCHEDULE, message=f"It changes the function's signature: {changed}")
    reason = bounds.outside or (bounds.opaque if kind in PROCESSORS else None)
    if reason is None:
        return None
    message = f"It accesses memory out of bounds: {reason}"[:_MESSAGE_CHARACTERS]
    return Broken(reason=FailureReason.INVALID_SCHEDULE, message=message)


def checked_call(held: HeldTask, shipped: ShippedModule, bounds: Bounds) -> Broken | None:
    """Call the schedule with an assertion before each unproven access, compiled for this host; None if all hold.

    Accesses that depend on the inputs' contents are checked on all sets of inputs. Raises whatever compiling raises.
    """
    if bounds.checked is None:
        return None
    module: Any = build_scheduled(bounds.checked, held.target)
    kernel = Kernel(held, shipped, module)
    try:
        for set_number in range(INPUT_SETS if bounds.reads_indices else 1):
            kernel.feed(set_number)
            kernel.call()
    except RuntimeError as error:
        return broken(FailureReason.INVALID_SCHEDULE, error)
    return None
