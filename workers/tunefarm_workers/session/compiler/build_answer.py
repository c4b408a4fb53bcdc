"""The two messages of a build: its description, then the library."""

from collections.abc import Callable

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_workers.conversation.child_answer import ChildFailed
from tunefarm_workers.conversation.messages import Broken
from tunefarm_workers.session.device.session_messages import LibraryBuilt, LibraryShape, ReferencesBuilt, from_builder

Receive = Callable[[], bytes]
"""The next message. Raises ``ChildFailed``."""


def built_library(receive: Receive) -> tuple[LibraryShape, bytes]:
    """A candidate's library. Raises ``ChildFailed`` with the reason if there is none."""
    reply = _first_reply(receive)
    if not isinstance(reply, LibraryBuilt):
        raise _invalid()
    return reply.shape, receive()


def built_references(receive: Receive) -> tuple[ReferencesBuilt, bytes]:
    """The reference kernels. Raises ``ChildFailed``."""
    reply = _first_reply(receive)
    if not isinstance(reply, ReferencesBuilt):
        raise _invalid()
    return reply, receive()


def _first_reply(receive: Receive) -> LibraryBuilt | ReferencesBuilt:
    try:
        reply = from_builder.validate_json(receive())
    except ValueError as error:
        raise _invalid() from error
    if isinstance(reply, Broken):
        raise ChildFailed(TrialFailure(reason=reply.reason, message=reply.message[:4000]))
    return reply


def _invalid() -> ChildFailed:
    message = "The child that compiles sent an invalid message."
    return ChildFailed(TrialFailure(reason=FailureReason.CRASH, message=message))
