"""A library being compiled on another host."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_workers.conversation.child_answer import ChildFailed, OnWait, next_message
from tunefarm_workers.session.compiler.build_answer import built_library, built_references
from tunefarm_workers.session.device.session_messages import LibraryShape, ReferencesBuilt

_WAIT_S = 900.0
"""A safety net only: an order is lost or given up long before."""
_DELIVER_S = 600.0
"""Long, because a caller that waits for several libraries reads them one after the other."""


class RemoteBuild:
    """A build whose messages come from ``answer``, through a channel within this process."""

    def __init__(self, order_id: str, taken_s: Callable[[str, float], float], withdraw: Callable[[str], bool]) -> None:
        """``taken_s`` and ``withdraw`` take the order's id; ``withdraw`` returns whether it was still unanswered."""
        self.order_id = order_id
        self.channel, far = Channel.pair()
        self._far = Channel(far)
        self._taken_s = taken_s
        self._withdraw = withdraw

    def taken_s(self, now_s: float) -> float:
        """Seconds from when its lane began it to that lane's last message."""
        return self._taken_s(self.order_id, now_s)

    def used_s(self) -> float | None:
        """None: lanes do not report it."""
        return None

    def children(self) -> Sequence[Child]:
        """None of this host."""
        return ()

    def failure_of_end(self) -> TrialFailure:
        """The order was withdrawn by this process."""
        message = "Compiling on another host was canceled."
        return TrialFailure(reason=FailureReason.DEVICE_LOST, message=message)

    def wait(self, on_wait: OnWait) -> tuple[LibraryShape, bytes]:
        """Wait for the library. Raises ``ChildFailed`` with the reason if there is none."""
        return built_library(lambda: self._next(on_wait))

    def wait_for_references(self, on_wait: OnWait) -> tuple[ReferencesBuilt, bytes]:
        """Wait for the reference kernels. Raises ``ChildFailed``."""
        return built_references(lambda: self._next(on_wait))

    def answer(self, messages: Sequence[bytes]) -> None:
        """Send ``messages`` and close the channel; waits for the reader.

        Only the caller that removed the order from the ledger may call it, so that an order is answered once.
        """
        with suppress(ChannelClosed, TimeoutError):
            for message in messages:
                self._far.send(message, timeout_s=_DELIVER_S)
        self._far.close()

    def close(self) -> None:
        """Cancel the order unless it is answered. Idempotent."""
        if self._withdraw(self.order_id):
            self._far.close()
        self.channel.close()

    def _next(self, on_wait: OnWait) -> bytes:
        return next_message(self.channel, _WAIT_S, "building", on_wait, lambda: ChildFailed(self.failure_of_end()))
