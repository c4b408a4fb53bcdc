"""Why a fork failed."""

from tunefarm_sandbox.fork_server.fork_request import RefusalKind


class ForkFailed(Exception):
    """Raised when a child could not be forked.

    Attributes:
        kind: "entry": it cannot be imported. "resources": the kernel refused to fork. "confinement": it is unavailable.
            "server_lost": the server died or did not answer.
        reason: what happened, in words.
    """

    def __init__(self, kind: RefusalKind, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason
