"""Libraries that came from a child or from another host, checked on their bytes before anything is done with them."""

from collections.abc import Collection

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.kernel_library.check import refusal_of
from tunefarm_schemas.kernel_library.of_target import rules_of
from tunefarm_workers.conversation.child_answer import ChildFailed

_CALLEES = "Where the operator allows it, TUNEFARM_CALLEES names the function."


def checked_library(library: bytes, target: str, callees: Collection[str] = ()) -> bytes:
    """``library``, which a child made for ``target``; ``callees`` are functions outside of it that it may call.

    A candidate may own the child that links it, so its word counts for nothing.

    Raises:
        ChildFailed: nothing may load it; the failure says why.
    """
    refusal = refusal_of(library, rules_of(target, callees))
    if refusal is None:
        return library
    hint = f" {_CALLEES}" if refusal.startswith("it calls") else ""
    message = f"The library is refused: {refusal}.{hint}"[:4000]
    raise ChildFailed(TrialFailure(reason=FailureReason.BUILD_ERROR, message=message))
