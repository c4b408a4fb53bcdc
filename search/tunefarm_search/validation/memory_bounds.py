"""Checks that the memory accesses of a scheduled function stay inside their buffers.

TVM 0.27 has two tools for this, and neither protects: its pass ``InstrumentBoundCheckers`` needs an annotation that no
pass writes any more, and ``OOBChecker`` ignores the conditions around an access and accepts every index that is read
from a tensor. This module checks the function as TVM's own passes lower it: without blocks, and with all layout changes
applied. An access must stay inside the memory that the caller or the function allocated; the size that a view declares
does not matter.
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
    """The findings about a module's accesses.

    ``outside`` describes an access that leaves its buffer in every run, ``opaque`` one that cannot be analysed, because
    it goes through a pointer. ``checked`` is the lowered module with an assertion before each access that is not
    proven; None if there is none. ``reads_indices`` states whether one of these depends on the contents of a tensor.
    """

    outside: str | None
    opaque: str | None
    checked: tvm.IRModule | None
    reads_indices: bool

    @property
    def is_proven(self) -> bool:
        """Whether every access stays inside, whatever the tensors contain."""
        return self.outside is None and self.opaque is None and self.checked is None


def bounds_of(module: tvm.IRModule, target: Any = None) -> Bounds:
    """Check every access of every function of a module, scheduled or not.

    The module comes from a user: call this in a confined child that may die. ``target`` is its compilation target.

    Raises TVM's error for a module that it cannot lower.
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

    Accesses that cannot be decided yet, without a target or data, are checked before a record is verified.

    Raises:
        BadInput: names the buffer, the index and the number of elements.
    """
    try:
        outside = bounds_of(module).outside
    except TVM_ERRORS:
        return  # without a target not every function can be lowered
    if outside is not None:
        raise BadInput(field, f"it accesses memory out of bounds: {outside}", "Correct the index, or guard the access.")


def _lowered(module: tvm.IRModule, target: Any) -> tvm.IRModule:
    """Return ``module`` after those passes of TVM's pipeline that resolve blocks."""
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
    """Skips the rest of a pipeline: later passes of TVM do not depend on the user's code."""

    def __init__(self) -> None:
        self.is_over = False

    def should_run(self, _module: tvm.IRModule, _info: Any) -> bool:
        """Whether the next pass runs."""
        return not self.is_over

    def run_after_pass(self, _module: tvm.IRModule, info: Any) -> None:
        """Detect the last pass."""
        self.is_over = self.is_over or str(info.name).endswith(_LAST)
