"""Reads schedules of users: Python functions and traces. Called only in a confined child."""

import json
from collections.abc import Callable, Collection
from typing import Any, Final

from tvm.s_tir import Schedule

from tunefarm.intake.intake_request import ScheduleSource, SeedSource
from tunefarm.intake.user_file import describe, user_object
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.tvm.tensor_intrinsics.of_tvm import load_intrinsics
from tunefarm_search.tvm.trace import trace_of
from tunefarm_search.validation.foreign_input import CALLEE_FIX
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.judgement import NotPermitted, named_callees

SEED_FIELD: Final = "seed_traces"
SEED_FIX: Final = "Give the JSON of a trace of this function, or FILE.py:FUNCTION, a function that schedules it."


def schedule_function_of(field: str, source: ScheduleSource) -> Callable[[Any], Any]:
    """The user's schedule function.

    Raises:
        BadInput: the file defines no such function.
    """
    found: Any = user_object(field, source.path, source.symbol)
    if not callable(found):
        problem = f"{source.symbol} is a {type(found).__name__}, not a function."
        raise BadInput(field, problem, "Name a function that takes a schedule and transforms it.")
    function: Callable[[Any], Any] = found
    return function


def tersely_failing(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a function to shorten its errors to one line: TVM's errors contain the whole module."""

    def call(schedule: Any) -> Any:
        try:
            return function(schedule)
        except Exception as error:
            raise RuntimeError(describe(error)) from error

    return call


def seed_trace(source: SeedSource, module: Any, callees: Collection[str] | None = ()) -> Trace:
    """Read a trace and check that it applies to ``module``; the result may call only ``callees``.

    If ``callees`` is None, the result may call only what the module already calls.

    Raises:
        BadInput: ``source`` is not a trace, or not a trace of this function.
    """
    if source.function is not None:
        return trace_of_function(schedule_function_of(SEED_FIELD, source.function), module)
    return _applied(source, module, named_callees(module) if callees is None else callees)


def trace_of_function(function: Callable[[Any], Any], module: Any) -> Trace:
    """The trace of a schedule function on ``module``, with its decisions.

    Raises:
        BadInput: the function fails.
    """
    load_intrinsics("llvm")
    schedule = Schedule(module)
    try:
        returned = function(schedule)
    except Exception as error:
        fix = "Run it on a tvm Schedule of this module to see the whole error, and fix it."
        raise BadInput(SEED_FIELD, f"the schedule function failed: {describe(error)}.", fix) from error
    return trace_of(returned if isinstance(returned, Schedule) else schedule)


def _applied(source: SeedSource, module: Any, callees: Collection[str]) -> Trace:
    try:
        value = json.loads(source.text)
    except (ValueError, RecursionError) as error:
        raise BadInput(SEED_FIELD, f"{source.name} is not JSON ({error}).", SEED_FIX) from error
    try:
        return trace_of(judged_schedule(module, value, callees=callees))
    except NotPermitted as refused:
        raise BadInput(SEED_FIELD, f"{source.name} cannot be used: it {refused}.", CALLEE_FIX) from refused
    except Exception as error:
        raise BadInput(SEED_FIELD, f"{source.name} does not apply: {describe(error)}.", SEED_FIX) from error
