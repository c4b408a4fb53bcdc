"""Modules and traces from outside: validated, and refused with a reason.

Reading them may still crash TVM: call this in a confined child that may die.
"""

import json
from collections.abc import Collection
from typing import Any, Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.trace import Sketch, Trace
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.trace import steps_of, trace_of
from tunefarm_search.tvm.workload import workload_of
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.judgement import NotPermitted, foreign_node, require_permitted
from tunefarm_search.validation.memory_bounds import refuse_strays

JSON_FIX: Final = "Send the text that tvm.ir.save_json(module) gives."
CALLEE_FIX: Final = (
    "Write it with TIR's own arithmetic and TVM's own annotations. An operator allows functions with TUNEFARM_CALLEES."
)
TRACE_FIX: Final = "Send the JSON of a trace of this very function: Trace.as_json()."
ATTEMPTS_OF_A_SKETCH: Final = 4


def foreign_module(module_json: str, also: Collection[str] = ()) -> Any:
    """Parse an IRModule. TVMScript is refused, because parsing it executes it. ``also`` are further types of nodes.

    Raises:
        BadInput: TVM cannot load it, or it contains nodes that a module of functions does not have.
    """
    if not module_json.lstrip().startswith("{"):
        raise BadInput(
            "module",
            "it is not TVM JSON; if it is TVMScript, it is never read here, because reading it means running it.",
            "Convert it where you trust it: tvm.ir.save_json(module), or let the tunefarm client do it.",
        )
    try:
        foreign = foreign_node(module_json, also=also)
    except (ValueError, RecursionError) as error:
        raise BadInput("module", f"{last_line(error)}.", JSON_FIX) from error
    if foreign is not None:
        raise BadInput("module", f"it holds a node of the type {foreign[:100]!r}.", "Send TIR functions only.")
    try:
        return load_json(module_json)
    except TVM_ERRORS as error:
        raise BadInput("module", f"TVM cannot load it: {last_line(error)}", JSON_FIX) from error


def foreign_workload(module: Any, function: str | None, name: str | None, callees: Collection[str] = ()) -> Workload:
    """Normalise one function of an untrusted module. It may call functions outside of it named in ``callees``.

    Raises:
        BadInput: it cannot be tuned, makes a call that is not allowed, or certainly accesses memory out of bounds.
    """
    try:
        found = workload_of(module, function, name=name)
        loaded = load_json(found.module_json)
        require_permitted_module(loaded, callees)
        refuse_strays(loaded, "module")
    except TVM_ERRORS as error:  # TVM also loads nodes with missing or mistyped fields
        raise BadInput("module", f"TVM cannot process it: {last_line(error)}", JSON_FIX) from error
    return found


def foreign_trace(workload: Workload, text: str, callees: Collection[str] = ()) -> Trace:
    """Parse a trace with its decisions and apply it to the workload, which may call ``callees``.

    Raises:
        BadInput: it does not apply, or adds what is not allowed.
    """
    return trace_of(_applied(workload, text, "seed_traces", callees))


def foreign_sketch(workload: Workload, text: str, callees: Collection[str] = ()) -> Sketch:
    """Parse a sketch and apply it with random decisions. Some draws may fail where others succeed.

    The workload may call ``callees``.

    Raises:
        BadInput: it does not apply, or adds what is not allowed.
    """
    try:
        sketch = steps_of(Sketch(text=text)).sketch
    except (ValueError, RecursionError) as error:
        raise BadInput("space", f"it is not a trace: {last_line(error)}.", TRACE_FIX) from error
    for attempts_left in reversed(range(ATTEMPTS_OF_A_SKETCH)):
        try:
            _applied(workload, sketch.text, "space", callees)
        except BadInput:
            if attempts_left == 0:
                raise
        else:
            break
    return sketch


def require_permitted_module(module: Any, callees: Collection[str] = (), field: str = "module") -> None:
    """Refuse a module unless it is one TIR function that only computes. It may call ``callees``.

    Raises:
        BadInput: it contains anything else.
    """
    try:
        require_permitted(module, callees)
    except NotPermitted as refused:
        raise BadInput(field, f"it {refused}.", CALLEE_FIX) from refused


def _applied(workload: Workload, text: str, field: str, callees: Collection[str]) -> Any:
    try:
        steps = json.loads(text)
        steps_of(Trace(text=text))
    except (ValueError, RecursionError) as error:
        raise BadInput(field, f"it is not a trace: {last_line(error)}.", TRACE_FIX) from error
    try:
        schedule = judged_schedule(load_json(workload.module_json), steps, callees=callees)
    except NotPermitted as refused:
        raise BadInput(field, f"it {refused}.", CALLEE_FIX) from refused
    except TVM_ERRORS as error:
        raise BadInput(field, f"a trace does not apply: {last_line(error)}", TRACE_FIX) from error
    refuse_strays(schedule.mod, field)
    return schedule
