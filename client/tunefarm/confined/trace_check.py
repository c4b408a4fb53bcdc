"""The child that applies a trace of others first, so that the caller's own process applies only what came through."""

from typing import Final

from pydantic import Field

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.trace import Trace

ENTRY: Final = "tunefarm.confined.trace_check:main"


class TraceQuestion(Frozen):
    """A module as TVM JSON, and a trace for it."""

    module_json: str = Field(repr=False)
    trace: Trace


class Permitted(Frozen):
    """The trace applies, and the scheduled module holds only what it may."""


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry of the child: a ``TraceQuestion`` in, ``Permitted`` or a refusal out."""
    del descriptors
    question = TraceQuestion.model_validate_json(payload)
    answer(channel, lambda: checked(question))


def checked(question: TraceQuestion) -> Permitted:
    """Apply the trace. The module may call what it calls already; a trace adds no callee.

    Raises:
        BadInput: the trace does not apply, or what comes of it is not permitted.
    """
    import tvm

    from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
    from tunefarm_search.validation.judged_schedule import judged_schedule
    from tunefarm_search.validation.judgement import named_callees

    try:
        module = tvm.ir.load_json(question.module_json)
        judged_schedule(module, question.trace.as_json(), callees=named_callees(module))
    except TVM_ERRORS as error:
        raise BadInput("trace", f"it cannot be used: {last_line(error)}.", "Retract the record.") from error
    return Permitted()
