"""Modules and traces that came from elsewhere: read with suspicion, and refused with a reason.

What is read here may crash TVM all the same: call it in a confined child that may die.
"""

import json
from collections.abc import Collection
from typing import Any, Final

import tvm
from tvm.s_tir import Schedule

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.trace import Sketch, Trace
from tunefarm_schemas.workload import Workload
from tunefarm_search.callees import forbidden_callee, foreign_node
from tunefarm_search.intrinsics import apply_steps
from tunefarm_search.memory_bounds import refuse_strays
from tunefarm_search.tvm_errors import TVM_ERRORS, last_line
from tunefarm_search.tvm_trace import steps_of, trace_of
from tunefarm_search.workload import workload_of

JSON_FIX: Final = "Send the text that tvm.ir.save_json(module) gives."
CALLEE_FIX: Final = "Write it with TIR's own arithmetic; functions of the host are never run here."
TRACE_FIX: Final = "Send the JSON of a trace of this very function: Trace.as_json()."
ATTEMPTS_OF_A_SKETCH: Final = 4


def foreign_module(module_json: str) -> Any:
    """The IRModule that a text stands for. TVMScript is not read: that would be running it.

    Raises:
        BadInput: it is no module that TVM can load, or holds what no module of functions consists of.
    """
    if not module_json.lstrip().startswith("{"):
        raise BadInput(
            "module",
            "it is not TVM JSON; if it is TVMScript, it is never read here, because reading it means running it.",
            "Convert it where you trust it: tvm.ir.save_json(module), or let the tunefarm client do it.",
        )
    try:
        foreign = foreign_node(module_json)
    except (ValueError, RecursionError) as error:
        raise BadInput("module", f"{last_line(error)}.", JSON_FIX) from error
    if foreign is not None:
        raise BadInput("module", f"it holds a node of the type {foreign[:100]!r}.", "Send TIR functions only.")
    try:
        return tvm.ir.load_json(module_json)
    except TVM_ERRORS as error:
        raise BadInput("module", f"TVM cannot load it: {last_line(error)}", JSON_FIX) from error


def foreign_workload(module: Any, function: str | None, name: str | None, callees: Collection[str] = ()) -> Workload:
    """One function of a foreign module, normalised. It may call functions outside of it named in ``callees``.

    Raises:
        BadInput: it cannot be tuned, calls what is not allowed, or certainly leaves one of its tensors.
    """
    found = workload_of(module, function, name=name)
    _refuse_forbidden_calls(found.module_json, "module", callees)
    refuse_strays(tvm.ir.load_json(found.module_json), "module")
    return found


def foreign_trace(workload: Workload, text: str, callees: Collection[str] = ()) -> Trace:
    """A trace with its decisions, proven to apply to the workload, which may call ``callees``.

    Raises:
        BadInput: it does not, or brings in what is not allowed.
    """
    return trace_of(_applied(workload, text, "seed_traces", callees))


def foreign_sketch(workload: Workload, text: str, callees: Collection[str] = ()) -> Sketch:
    """A sketch, proven to apply with decisions that were drawn at random. A draw may fail where others do not.

    The workload may call ``callees``.

    Raises:
        BadInput: it does not apply, or brings in what is not allowed.
    """
    for attempts_left in reversed(range(ATTEMPTS_OF_A_SKETCH)):
        try:
            _applied(workload, text, "space", callees)
        except BadInput:
            if attempts_left == 0:
                raise
        else:
            break
    return steps_of(Sketch(text=text)).sketch


def forbidden_in_record(workload: Workload, trace: Trace, callees: Collection[str] = ()) -> str | None:
    """What a workload and a trace that applies to it call or import and must not; None when all is well.

    They may call ``callees``.
    """
    callee = forbidden_callee(workload.module_json, callees)
    # Annotations are all that a trace can bring in, so one that has none of them is not applied once more.
    if callee is not None or not any(word in trace.text for word in ("pragma_import", "extern", "asm")):
        return callee
    schedule = Schedule(tvm.ir.load_json(workload.module_json))
    apply_steps(trace.as_json(), schedule)
    return forbidden_callee(str(tvm.ir.save_json(schedule.mod)), callees)


def _applied(workload: Workload, text: str, field: str, callees: Collection[str]) -> Any:
    try:
        steps = json.loads(text)
        steps_of(Trace(text=text))
    except (ValueError, RecursionError) as error:
        raise BadInput(field, f"it is not a trace: {last_line(error)}.", TRACE_FIX) from error
    schedule = Schedule(tvm.ir.load_json(workload.module_json))
    try:
        apply_steps(steps, schedule)
    except TVM_ERRORS as error:
        raise BadInput(field, f"a trace does not apply: {last_line(error)}", TRACE_FIX) from error
    _refuse_forbidden_calls(str(tvm.ir.save_json(schedule.mod)), field, callees)
    refuse_strays(schedule.mod, field)
    return schedule


def _refuse_forbidden_calls(module_json: str, field: str, callees: Collection[str]) -> None:
    callee = forbidden_callee(module_json, callees)
    if callee is not None:
        raise BadInput(field, f"it calls {callee}, which is not allowed.", CALLEE_FIX)
