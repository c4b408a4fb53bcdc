"""One question to a confined child, and its answer."""

from typing import TypeVar

import structlog
from pydantic import BaseModel, ValidationError

from tunefarm_sandbox.channel import MAX_MESSAGE_BYTES, ChannelClosed
from tunefarm_sandbox.child import Child
from tunefarm_sandbox.confinement import Confinement
from tunefarm_sandbox.fork_server import ForkServer
from tunefarm_sandbox.limits import Limits
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_services.api.intake_messages import Refusal

log = structlog.get_logger()

Answer = TypeVar("Answer", bound=BaseModel)

FIX = "Send what tvm.ir.save_json writes for a module of TIR functions, unchanged."


def confined_call(
    zygote: ForkServer,
    entry: str,
    question: Frozen,
    answer_type: type[Answer],
    *,
    field: str,
    limits: Limits,
    timeout_s: float,
) -> Answer:
    """Run ``entry`` ("package.module:function") in a child that may compute and nothing else.

    Raises:
        BadInput: the child refused the question, crashed or took longer than ``timeout_s``; named after ``field``.
        ForkFailed: there is no child.
    """
    payload = question.model_dump_json().encode()
    if len(payload) > MAX_MESSAGE_BYTES:
        raise BadInput(field, "it is too large to be read at once.", "Send fewer modules in one request.")
    with zygote.fork(entry, payload, limits=limits, confinement=Confinement.strict()) as child:
        try:
            received = child.channel.receive(timeout_s)
        except ChannelClosed as closed:
            raise BadInput(field, f"the process that read it {_how_it_ended(child)}.", FIX) from closed
        except TimeoutError as late:
            problem = f"reading it took longer than {timeout_s:g} s."
            raise BadInput(field, problem, "Send one function at a time.") from late
    return _decoded(received, answer_type)


def _how_it_ended(child: Child) -> str:
    ended = child.exit(2.0)
    log.warning("intake child died", ended=None if ended is None else ended.described(), output=child.output()[-2000:])
    if ended is None:
        return "closed its channel"
    return f"was {ended.described()}" if ended.kind == "signaled" else ended.described()


def _decoded(received: bytes, answer_type: type[Answer]) -> Answer:
    try:
        refusal = Refusal.model_validate_json(received)
    except ValidationError:
        return answer_type.model_validate_json(received)
    raise refusal.as_error()
