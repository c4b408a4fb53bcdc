"""Runs schedule functions of the caller's process in a fork, so that they cannot change its state."""

import os
from collections.abc import Callable
from typing import Any, Final

from pydantic import TypeAdapter

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.refusal import Refusal
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Sketch, Trace
from tunefarm_schemas.tuning.workload import Workload

CHUNK_BYTES: Final = 1 << 16


class Schedules(Frozen):
    """The traces of a schedule function."""

    sketches: tuple[Sketch, ...] = ()
    trace: Trace | None = None


_answer: TypeAdapter[Schedules | Refusal] = TypeAdapter(Schedules | Refusal)


def own_sketches(
    function: Callable[[Any], Any], workload: Workload, target: Target, intrinsics_file: str | None = None
) -> tuple[Sketch, ...]:
    """The distinct sketches of a sampling schedule function on ``workload``.

    They carry the intrinsics that this process or ``intrinsics_file`` registers.

    Raises:
        BadInput: the function fails.
    """

    def work() -> Schedules:
        from tunefarm.intake.schedules.own_intrinsics import carrying_sketch, register_own_intrinsics
        from tunefarm.intake.schedules.schedule_function import tersely_failing
        from tunefarm_search.space.space import sketches_of
        from tunefarm_search.tvm.serialization import load_json

        if intrinsics_file is not None:
            register_own_intrinsics(intrinsics_file, target)
        module = load_json(workload.module_json)
        sketches = sketches_of(tersely_failing(function), module, target)
        return Schedules(sketches=tuple(carrying_sketch(each) for each in sketches))

    return _in_a_fork("space", work).sketches


def own_trace(
    function: Callable[[Any], Any], workload: Workload, target: Target, intrinsics_file: str | None = None
) -> Trace:
    """The trace of a schedule function on ``workload``, with its decisions.

    It carries the intrinsics that this process or ``intrinsics_file`` registers.

    Raises:
        BadInput: the function fails.
    """

    def work() -> Schedules:
        from tunefarm.intake.schedules.own_intrinsics import carrying_trace, register_own_intrinsics
        from tunefarm.intake.schedules.schedule_function import trace_of_function
        from tunefarm_search.tvm.serialization import load_json

        if intrinsics_file is not None:
            register_own_intrinsics(intrinsics_file, target)
        trace = trace_of_function(function, load_json(workload.module_json))
        return Schedules(trace=carrying_trace(trace))

    trace = _in_a_fork("seed_traces", work).trace
    assert trace is not None
    return trace


def _in_a_fork(field: str, work: Callable[[], Schedules]) -> Schedules:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer_and_end(field, work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=CHUNK_BYTES) as pipe:
        received = pipe.read()
    os.waitpid(child, 0)
    if not received:
        raise BadInput(field, "the process that ran the function died.", "Run it on a tvm Schedule to see why.")
    answer = _answer.validate_json(received)
    if isinstance(answer, Refusal):
        raise answer.as_error()
    return answer


def _answer_and_end(field: str, work: Callable[[], Schedules], writing: int) -> None:
    try:
        answer: Frozen = work()
    except BadInput as error:
        answer = Refusal.of(error)
    except BaseException as error:  # noqa: BLE001 - a fork must never return into the caller's code
        text = f"{type(error).__name__}: {error}"[:1000]
        answer = Refusal(field=field, problem=f"the function failed: {text}", fix="Fix it.")
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(answer.model_dump_json().encode())
    finally:
        os._exit(0)
