"""Conversations with the confined children that compile and run models."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from tunefarm.frontend.model_import import ModelSettings
from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.refusal import Refusal
from tunefarm_workers.conversation.child_answer import ChildFailed, answer_of

Answer = TypeVar("Answer", bound=Frozen)
_FIX: Final = "Use a smaller model, or raise TUNEFARM_MODEL_MEMORY_BYTES and TUNEFARM_MODEL_TIMEOUT_S."
_NO_INSTRUCTION: Final = "SIGILL"
_FIX_OF_INSTRUCTION: Final = (
    "This processor lacks an instruction: compile for --target host, or run it where it was compiled."
)


class ChildEnded(BadInput):
    """Raised for a child that ended without an answer.

    If it had answered before, the order need not be the cause: all orders count towards the processor seconds of their
    child. A new child has its own.
    """


@contextmanager
def compiling(
    fork_server: ForkServer,
    entry: str,
    order: Frozen | None,
    *,
    folder: Path,
    descriptors: Sequence[int] = (),
    confinement: Confinement | None = None,
) -> Iterator[Child]:
    """A child that may write to ``folder`` and nothing else, unless ``confinement`` permits other things."""
    settings = ModelSettings()
    limits = Limits(memory_bytes=settings.memory_bytes, cpu_s=settings.cpu_s, file_size_bytes=settings.weights_bytes)
    payload = b"" if order is None else order.model_dump_json().encode()
    permitted = confinement or Confinement.strict(writable=(str(folder),))
    with fork_server.fork(entry, payload, limits=limits, confinement=permitted, descriptors=descriptors) as child:
        yield child


def ask(
    child: Child,
    order: Frozen,
    answer_type: type[Answer],
    doing: str,
    *,
    has_bytes: bool = True,
    timeout_s: float = float("inf"),
) -> tuple[Answer, bytes]:
    """The answer to ``order`` of a child that answers several, as ``exchange`` returns it."""
    with suppress(ChannelClosed):  # it has ended, as the exchange tells
        child.channel.send(order.model_dump_json().encode())
    return exchange(child, answer_type, doing, has_bytes=has_bytes, timeout_s=timeout_s)


def exchange(
    child: Child,
    answer_type: type[Answer],
    doing: str,
    *,
    has_bytes: bool = True,
    timeout_s: float = float("inf"),
) -> tuple[Answer, bytes]:
    """The next answer of a child, and the bytes that follow it, within ``timeout_s`` and what the settings permit.

    Raises:
        BadInput: it refused or took too long.
        ChildEnded: it ended.
    """
    timeout_s = min(timeout_s, ModelSettings().timeout_s)
    try:
        received = answer_of(child, timeout_s, doing, lambda: True)
        try:
            refusal = Refusal.model_validate_json(received)
        except ValidationError:
            answered = answer_type.model_validate_json(received)
            return answered, answer_of(child, timeout_s, doing, lambda: True) if has_bytes else b""
    except ChildFailed as failed:
        reason = " ".join(failed.failure.message.splitlines()[:1] + failed.failure.message.splitlines()[1:][-1:])
        error = BadInput if child.exit() is None else ChildEnded
        if _NO_INSTRUCTION in reason:
            raise error("target", f"{doing} the model failed: {reason}", _FIX_OF_INSTRUCTION) from failed
        raise error("model", f"{doing} it failed: {reason}", _FIX) from failed
    raise refusal.as_error()
