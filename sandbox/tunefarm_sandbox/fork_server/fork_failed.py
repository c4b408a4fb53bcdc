"""Why there is no child."""

from tunefarm_sandbox.fork_server.fork_request import RefusalKind


class ForkFailed(Exception):
    """Raised when there is no child.

    Attributes:
        kind: "entry": it cannot be imported. "resources": the kernel refused to fork. "confinement": it cannot be had
            here. "server_lost": the server died or did not answer.
        reason: what happened, in words.
    """

    def __init__(self, kind: RefusalKind, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason
