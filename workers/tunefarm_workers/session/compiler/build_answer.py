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
    said = _said(receive)
    if not isinstance(said, LibraryBuilt):
        raise _nonsense()
    return said.shape, receive()


def built_references(receive: Receive) -> tuple[ReferencesBuilt, bytes]:
    """The reference kernels. Raises ``ChildFailed``."""
    said = _said(receive)
    if not isinstance(said, ReferencesBuilt):
        raise _nonsense()
    return said, receive()


def _said(receive: Receive) -> LibraryBuilt | ReferencesBuilt:
    try:
        said = from_builder.validate_json(receive())
    except ValueError as error:
        raise _nonsense() from error
    if isinstance(said, Broken):
        raise ChildFailed(TrialFailure(reason=said.reason, message=said.message[:4000]))
    return said


def _nonsense() -> ChildFailed:
    message = "The child that compiles sent an invalid message."
    return ChildFailed(TrialFailure(reason=FailureReason.CRASH, message=message))
