"""One request to a confined child, and its answer or refusal."""

import signal
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from tunefarm_sandbox.channel.channel import MAX_MESSAGE_BYTES, Channel, ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Exit
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.refusal import Refusal

Question = TypeVar("Question", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)
Entry: TypeAlias = Callable[[Channel, bytes, list[int]], None]


class Fixes(NamedTuple):
    """The advice for input that is too large for one message, that ends its child, or that takes too long."""

    too_large: str
    ended: str
    late: str


def answer(channel: Channel, work: Callable[[], Frozen]) -> None:
    """Run ``work`` in the child and send its result, or the ``BadInput`` that it raises.

    Any other exception is a bug and ends the child.
    """
    try:
        result: Frozen = work()
    except BadInput as error:
        result = Refusal.of(error)
    try:
        said = result.model_dump_json()
    except ValueError as error:
        no_text = BadInput("text", f"it cannot be written as UTF-8: {error}.", "Leave out halves of surrogate pairs.")
        said = Refusal.of(no_text).model_dump_json()
    channel.send(said.encode())


def answering(question: type[Question], work: Callable[[Question], Frozen]) -> Entry:
    """The entry of a child that reads one ``question`` and answers with the result of ``work``, or its refusal."""

    def entry(channel: Channel, payload: bytes, _descriptors: list[int]) -> None:
        answer(channel, lambda: work(question.model_validate_json(payload)))

    return entry


_ASKED_AT_MOST: Final = 2


def ask(
    server: ForkServer,
    entry: str,
    question: Frozen,
    answer_type: type[Answer],
    *,
    field: str,
    fixes: Fixes,
    limits: Limits,
    timeout_s: float,
    described: Callable[[str, str], str],
    readable: Sequence[str] = (),
    descriptors: Sequence[int] = (),
) -> Answer:
    """Run ``entry`` ("package.module:function") in a child that may compute, read ``readable``, and nothing else.

    The child may also write to the files of ``descriptors``, which it receives.

    ``described`` completes the sentence of the error if the child ended without an answer, from its end and its output.
    Asks once more if the child was killed from outside, which does not depend on the request.

    Raises:
        BadInput: for ``field``: the child refused the request, ended, or took longer than ``timeout_s``.
        ForkFailed: no child was forked, or the server died before its child answered.
    """
    payload = question.model_dump_json().encode()
    if len(payload) > MAX_MESSAGE_BYTES:
        raise BadInput(field, "it is too large to be read at once.", fixes.too_large)
    confinement = Confinement.strict(readable=tuple(readable))
    for _ in range(_ASKED_AT_MOST):
        with server.fork(entry, payload, limits=limits, confinement=confinement, descriptors=descriptors) as child:
            try:
                return _decoded(child.channel.receive(timeout_s), answer_type)
            except TimeoutError as late:
                raise BadInput(field, f"reading it took longer than {timeout_s:g} s.", fixes.late) from late
            except ChannelClosed:
                ended, printed = child.exit(2.0), child.output()
        if not server.alive:
            raise ForkFailed("server_lost", "the fork server died before its child answered")
        if not _was_killed(ended):
            break
    raise BadInput(field, f"the process that read it {described(_how(ended), printed)}", fixes.ended)


def _was_killed(ended: Exit | None) -> bool:
    """Whether another process killed it, such as the OOM killer. Its own limits send other signals."""
    return ended is not None and ended.kind == "signaled" and ended.code == signal.SIGKILL


def _how(ended: Exit | None) -> str:
    if ended is None:
        return "closed its channel"
    return f"was {ended.described()}" if ended.kind == "signaled" else ended.described()


def _decoded(received: bytes, answer_type: type[Answer]) -> Answer:
    try:
        refusal = Refusal.model_validate_json(received)
    except ValidationError:
        return answer_type.model_validate_json(received)
    raise refusal.as_error()
