"""Waits for a child's answer on the caller's thread, or for its failure."""

import time
from collections.abc import Callable

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_workers.conversation.child_death import failure_of_death, was_killed

_POLL_S = 0.4

OnWait = Callable[[], bool]
"""Called a few times a second during a wait; False cancels it."""


class ChildFailed(Exception):
    """Raised when a child does not answer.

    Attributes:
        failure: the reason.
        may_be_tried_again: whether the child was killed from outside.
    """

    def __init__(self, failure: TrialFailure, *, may_be_tried_again: bool = False) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.may_be_tried_again = may_be_tried_again


def canceled() -> ChildFailed:
    """Create the error to raise for a canceled wait."""
    return ChildFailed(TrialFailure(reason=FailureReason.CANCELED, message="It was canceled."))


def answer_of(child: Child, timeout_s: float, doing: str, on_wait: OnWait) -> bytes:
    """Return the next message of a child that is ``doing`` something.

    Raises:
        ChildFailed: it ended, took longer than ``timeout_s``, or was canceled by ``on_wait``.
    """

    def failed() -> ChildFailed:
        death = child.exit(timeout_s=1.0)
        failure = failure_of_death(death, doing, child.output())
        return ChildFailed(failure, may_be_tried_again=was_killed(death))

    return next_message(child.channel, timeout_s, doing, on_wait, failed)


def next_message(
    channel: Channel, timeout_s: float, doing: str, on_wait: OnWait, on_end: Callable[[], ChildFailed]
) -> bytes:
    """Return the next message of the process at the other end; ``on_end`` creates the error if the channel ends.

    Raises:
        ChildFailed: the channel ended, it took longer than ``timeout_s``, or was canceled by ``on_wait``.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            return channel.receive(timeout_s=min(max(left_s, 0.0), _POLL_S))
        except ChannelClosed as closed:
            raise on_end() from closed
        except TimeoutError as late:
            if left_s <= 0:
                reason = FailureReason.BUILD_TIMEOUT if doing == "building" else FailureReason.RUN_TIMEOUT
                message = f"It was {doing} for {timeout_s:.0f} s."
                raise ChildFailed(TrialFailure(reason=reason, message=message)) from late
        if not on_wait():
            raise canceled()
