"""What a child says on its caller's thread, or the failure that it ended with instead."""

import time
from collections.abc import Callable

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_workers.conversation.child_death import failure_of_death, was_killed

_TURN_S = 0.4

OnWait = Callable[[], bool]
"""Called a few times a second while something is awaited; False when it is not wanted any more."""


class ChildFailed(Exception):
    """Raised when a child gives no answer.

    Attributes:
        failure: why, as a value for whoever asked.
        may_be_tried_again: whether the child was killed by somebody else.
    """

    def __init__(self, failure: TrialFailure, *, may_be_tried_again: bool = False) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.may_be_tried_again = may_be_tried_again


def canceled() -> ChildFailed:
    """What to raise when an answer is not wanted any more."""
    return ChildFailed(TrialFailure(reason=FailureReason.CANCELED, message="It was canceled."))


def answer_of(child: Child, timeout_s: float, doing: str, on_wait: OnWait) -> bytes:
    """The next message of a child that is ``doing`` something.

    Raises:
        ChildFailed: it ended, took longer than ``timeout_s``, or ``on_wait`` said that it is not wanted any more.
    """

    def failed() -> ChildFailed:
        death = child.exit(timeout_s=1.0)
        failure = failure_of_death(death, doing, child.output())
        return ChildFailed(failure, may_be_tried_again=was_killed(death))

    return next_message(child.channel, timeout_s, doing, on_wait, failed)


def next_message(
    channel: Channel, timeout_s: float, doing: str, on_wait: OnWait, on_end: Callable[[], ChildFailed]
) -> bytes:
    """The next message of whoever is ``doing`` something at the other end; ``on_end`` tells why there is none.

    Raises:
        ChildFailed: the channel ended, it took longer than ``timeout_s``, or ``on_wait`` said that it is not wanted.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            return channel.receive(timeout_s=min(max(left_s, 0.0), _TURN_S))
        except ChannelClosed as closed:
            raise on_end() from closed
        except TimeoutError as late:
            if left_s <= 0:
                reason = FailureReason.BUILD_TIMEOUT if doing == "building" else FailureReason.RUN_TIMEOUT
                message = f"It was {doing} for {timeout_s:.0f} s."
                raise ChildFailed(TrialFailure(reason=reason, message=message)) from late
        if not on_wait():
            raise canceled()
