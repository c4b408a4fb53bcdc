"""Runs an action of another thread while a lane's device is quiet."""

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from tunefarm_workers.conversation.child_answer import OnWait, canceled
from tunefarm_workers.conversation.event_loop import EventLoop
from tunefarm_workers.timing.device_arbiter import DeviceArbiter

_CRASH_POLL_S = 0.25

T = TypeVar("T")


class ArbitratedLane(Protocol):
    """A lane that gives its device to one claimant at a time."""

    loop: EventLoop
    device_arbiter: DeviceArbiter


class _Turn:
    """A claimant that wakes up a thread."""

    def __init__(self) -> None:
        self.came = threading.Event()

    def go(self) -> None:
        self.came.set()


def while_device_is_held(lane: ArbitratedLane, action: Callable[[], T], on_wait: OnWait) -> T:
    """Return the result of ``action``, called on this thread while ``lane`` keeps the device quiet.

    Raises ``ChildFailed`` if ``on_wait`` cancels it.
    """
    turn = _Turn()
    lane.loop.post(lambda: lane.device_arbiter.claim(turn))
    try:
        while not turn.came.wait(_CRASH_POLL_S):
            lane.loop.raise_crash()
            if not on_wait():
                raise canceled()
        return action()
    finally:
        lane.loop.post(lambda: lane.device_arbiter.release(turn))
