"""One library that is made on another host."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_workers.conversation.child_answer import ChildFailed, OnWait, next_message
from tunefarm_workers.session.compiler.build_answer import built_library, built_references
from tunefarm_workers.session.device.session_messages import LibraryShape, ReferencesBuilt

_WAIT_S = 900.0
"""An order is lost, or given up, long before: this guards against hanging only."""
_DELIVER_S = 600.0
"""Whoever waits for several libraries fetches one after the other."""


class RemoteBuild:
    """What a child of this host would say comes through a channel whose other end is in this process."""

    def __init__(self, order_id: str, taken_s: Callable[[str, float], float], withdraw: Callable[[str], bool]) -> None:
        """``taken_s`` and ``withdraw`` are told the order's id; the latter tells whether it was still unanswered."""
        self.order_id = order_id
        self.channel, far = Channel.pair()
        self._far = Channel(far)
        self._taken_s = taken_s
        self._withdraw = withdraw

    def taken_s(self, now_s: float) -> float:
        """Seconds from when its lane began it to when that lane was last heard of."""
        return self._taken_s(self.order_id, now_s)

    def used_s(self) -> float | None:
        """Nobody tells."""
        return None

    def children(self) -> Sequence[Child]:
        """None of this host."""
        return ()

    def failure_of_end(self) -> TrialFailure:
        """It was let go by this process."""
        message = "Compiling on another host was broken off."
        return TrialFailure(reason=FailureReason.DEVICE_LOST, message=message)

    def wait(self, on_wait: OnWait) -> tuple[LibraryShape, bytes]:
        """The library, on the caller's thread. Raises ``ChildFailed`` with the reason why there is none."""
        return built_library(lambda: self._next(on_wait))

    def wait_for_references(self, on_wait: OnWait) -> tuple[ReferencesBuilt, bytes]:
        """The reference kernels, on the caller's thread. Raises ``ChildFailed``."""
        return built_references(lambda: self._next(on_wait))

    def answer(self, messages: Sequence[bytes]) -> None:
        """Say all that will be said, and end; by whoever took the order off, and nobody else. Waits for the reader."""
        with suppress(ChannelClosed, TimeoutError):
            for message in messages:
                self._far.send(message, timeout_s=_DELIVER_S)
        self._far.close()

    def close(self) -> None:
        """Let the order be canceled, unless it is answered; harmless when repeated."""
        if self._withdraw(self.order_id):
            self._far.close()
        self.channel.close()

    def _next(self, on_wait: OnWait) -> bytes:
        return next_message(self.channel, _WAIT_S, "building", on_wait, lambda: ChildFailed(self.failure_of_end()))
