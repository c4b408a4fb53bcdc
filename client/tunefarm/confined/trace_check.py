"""The child that checks an untrusted trace before the caller applies it in its own process."""

from typing import Final

from pydantic import Field

from tunefarm_sandbox.fork_server.question import answering
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.trace import Trace

ENTRY: Final = "tunefarm.confined.trace_check:main"


class TraceQuestion(Frozen):
    """A module as TVM JSON, and a trace for it."""

    module_json: str = Field(repr=False)
    trace: Trace


class Permitted(Frozen):
    """The trace applies, and the scheduled module contains only permitted constructs."""


def checked(question: TraceQuestion) -> Permitted:
    """Apply the trace. The trace must not add callees to those of the module.

    Raises:
        BadInput: the trace does not apply, or its result is not permitted.
    """
    from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
    from tunefarm_search.tvm.serialization import load_json
    from tunefarm_search.validation.judged_schedule import judged_schedule
    from tunefarm_search.validation.judgement import named_callees

    try:
        module = load_json(question.module_json)
        judged_schedule(module, question.trace.as_json(), callees=named_callees(module))
    except TVM_ERRORS as error:
        raise BadInput("trace", f"it cannot be used: {last_line(error)}.", "Retract the record.") from error
    return Permitted()


main = answering(TraceQuestion, checked)
