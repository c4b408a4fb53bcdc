"""Readable views of a schedule."""

import difflib
import json
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import CPU_KINDS, tvm_target
from tunefarm_search.tvm.target_attributes import require_permitted_target
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.judgement import NotPermitted, named_callees
from tunefarm_search.validation.own_intrinsics import short_names, shortened


@dataclass(frozen=True)
class ScheduleView:
    """One schedule in three forms, all text.

    Attributes:
        script: the scheduled function as TensorIR.
        python: the trace as a Python function that applies it to a ``tvm.s_tir.Schedule``.
        difference: unified diff from the unscheduled function to the scheduled one; empty if they are equal.
    """

    script: str
    python: str
    difference: str


def schedule_view(module_json: str, trace: Trace, kind: str = "llvm") -> ScheduleView:
    """Replay a trace on its workload and show the result. ``kind`` is that of the record's target.

    Raises:
        BadInput: if the trace does not fit the workload.
    """
    module, schedule = _replayed(module_json, trace, kind)
    before, after = str(module.script()), str(schedule.mod.script())
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "original", "scheduled", lineterm="", n=3)
    return ScheduleView(after, _python(schedule), "".join(f"{line}\n" for line in lines))


def lowered_script(module_json: str, trace: Trace, target: Target) -> str:
    """The scheduled function after TVM's lowering passes for ``target``, as code generation gets it.

    The checks of arguments are left out: they hide the loops.

    Raises:
        BadInput: if the trace does not fit the workload, or TVM cannot lower the result.
    """
    _, schedule = _replayed(module_json, trace, target.kind)
    try:
        require_permitted_target(json.loads(target.canonical))
        built = tvm_target(target)
        host = built if target.kind in CPU_KINDS else tvm.target.Target({"kind": "llvm"})
        lower, _, _ = tirx.get_default_tir_pipeline(built)
        passes = [tirx.transform.BindTarget(built.with_host(host)), lower, tirx.transform.SkipAssert()]
        return str(tvm.transform.Sequential(passes)(schedule.mod).script())
    except TVM_ERRORS as error:
        problem = f"its result cannot be lowered for the target: {last_line(error)}."
        raise BadInput("trace", problem, "Check the record.") from error


def _replayed(module_json: str, trace: Trace, kind: str) -> tuple[Any, Any]:
    """The module, and its schedule with the trace applied."""
    try:
        module = load_json(module_json)
        return module, judged_schedule(module, json.loads(trace.text), kind=kind, callees=named_callees(module))
    except NotPermitted as refused:
        raise BadInput("trace", f"it {refused}.", "Retract the record: tunefarm records retract") from refused
    except TVM_ERRORS as error:
        raise BadInput("trace", f"does not fit the workload: {last_line(error)}.", "Check the record.") from error


def _python(schedule: Any) -> str:
    """The trace as Python. Names of users' intrinsics are those that the users gave, without the content."""
    text = str(schedule.trace)
    comments = [f"# Register {name} with TensorIntrin.register before.\n" for name in short_names(text)]
    return "".join(comments) + shortened(text)
