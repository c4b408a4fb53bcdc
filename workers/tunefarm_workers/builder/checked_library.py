"""Checks the bytes of a library from a child or another host before it is used."""

from collections.abc import Collection

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.kernel_library.check import refusal_of
from tunefarm_schemas.kernel_library.of_target import rules_of
from tunefarm_workers.conversation.child_answer import ChildFailed

_CALLEES = "Where the operator allows it, TUNEFARM_CALLEES names the function."


def checked_library(library: bytes, target: str, callees: Collection[str] = ()) -> bytes:
    """Return ``library``, built for ``target``, if it is safe; it may call the external functions ``callees``.

    A candidate may have taken over the child that links it, so the child is not trusted.

    Raises:
        ChildFailed: the library must not be loaded; the failure states why.
    """
    refusal = refusal_of(library, rules_of(target, callees))
    if refusal is None:
        return library
    hint = f" {_CALLEES}" if refusal.startswith("it calls") else ""
    message = f"The library is refused: {refusal}.{hint}"[:4000]
    raise ChildFailed(TrialFailure(reason=FailureReason.BUILD_ERROR, message=message))
