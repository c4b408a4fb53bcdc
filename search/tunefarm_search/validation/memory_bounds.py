"""Whether the memory accesses of a scheduled function stay inside the buffers that they name.

TVM 0.27 has two tools for this, and neither of them protects: its pass ``InstrumentBoundCheckers`` looks for an
annotation that no pass writes any more, and ``OOBChecker`` ignores the conditions around an access and passes every
index that is read from a tensor. So the question is answered here, on the function as TVM's own passes lower it:
without blocks, and with every change of layout carried out. What counts is the memory that the caller or the function
itself allocated, not what a view of it declares.
"""

from dataclasses import dataclass
from typing import Any, Final

import tvm
from tvm import tirx
from tvm.ir.instrument import pass_instrument

from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.tvm.errors import TVM_ERRORS
from tunefarm_search.validation.access_check import AccessCheck

_LAST: Final = "LowerOpaqueBlock"


@dataclass(frozen=True)
class Bounds:
    """What is known of a module's accesses.

    ``outside`` describes one that leaves its buffer in every run, ``opaque`` one that nothing can be said of, because
    it goes through a pointer. ``checked`` is the lowered module with an assertion before each access that is not
    proven; None when there is none. ``reads_indices`` tells whether one of these depends on what a tensor holds.
    """

    outside: str | None
    opaque: str | None
    checked: tvm.IRModule | None
    reads_indices: bool

    @property
    def is_proven(self) -> bool:
        """Whether every access stays inside, whatever the tensors hold."""
        return self.outside is None and self.opaque is None and self.checked is None


def bounds_of(module: tvm.IRModule, target: Any = None) -> Bounds:
    """Examine every access of every function of a module, scheduled or not.

    The module comes from a user: call it in a confined child that may die. ``target`` is what it is compiled for.

    Raises whatever TVM raises for a module that it cannot lower.
    """
    lowered = _lowered(module, target)
    functions: dict[Any, Any] = {}
    checks = []
    for variable, function in lowered.functions.items():
        check = AccessCheck(function)
        functions[variable] = check.rewritten().without_attr("target")
        checks.append(check)
    is_open = any(check.has_assertions for check in checks)
    return Bounds(
        outside=next((check.outside for check in checks if check.outside), None),
        opaque=next((check.opaque for check in checks if check.opaque), None),
        checked=tvm.IRModule(functions) if is_open else None,
        reads_indices=any(check.reads_indices for check in checks),
    )


def refuse_strays(module: tvm.IRModule, field: str) -> None:
    """Refuse a module that certainly accesses memory out of bounds.

    What cannot be told yet, for want of a target or of data, is checked before a record of it is verified.

    Raises:
        BadInput: names the buffer, the index and how many elements there are.
    """
    try:
        outside = bounds_of(module).outside
    except TVM_ERRORS:
        return  # without a target not every function can be lowered
    if outside is not None:
        raise BadInput(field, f"it accesses memory out of bounds: {outside}", "Correct the index, or guard the access.")


def _lowered(module: tvm.IRModule, target: Any) -> tvm.IRModule:
    """``module`` as it is after those passes of TVM's pipeline that resolve blocks."""
    lower, _, _ = tirx.get_tir_pipeline("s_tir")
    stop = _StopAfterBlocks()
    bound = module if target is None else tirx.transform.BindTarget(target)(module)
    with tvm.transform.PassContext(instruments=[stop]):
        lowered = lower(bound)
    if not stop.is_over:
        raise RuntimeError(f"TVM's pipeline has no pass {_LAST}")
    return lowered


@pass_instrument
class _StopAfterBlocks:
    """Skips the rest of a pipeline: what TVM does later does not depend on what the user wrote."""

    def __init__(self) -> None:
        self.is_over = False

    def should_run(self, _module: tvm.IRModule, _info: Any) -> bool:
        """Whether the next pass runs."""
        return not self.is_over

    def run_after_pass(self, _module: tvm.IRModule, info: Any) -> None:
        """Notice the last pass."""
        self.is_over = self.is_over or str(info.name).endswith(_LAST)
