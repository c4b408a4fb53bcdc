"""A conversation that holds up the loop must not make another late."""

import time
from collections.abc import Callable
from threading import Event

import pytest

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_workers.conversation.event_loop import EventLoop

HELD_UP_S = 0.3


class Listener:
    """Calls ``on_message`` for its first message, and notes when each message came."""

    def __init__(self, on_message: Callable[[], object] = lambda: None) -> None:
        self.channel, far = Channel.pair()
        self.far = Channel(far)
        self.heard_s: list[float] = []
        self._on_message = on_message

    def received(self, _message: bytes) -> None:
        self._on_message()
        self.heard_s.append(time.monotonic())

    def ended(self) -> None:
        pytest.fail("the channel was closed")


def test_held_up_loop_reads_messages_before_ticking() -> None:
    sent_s: list[float] = []

    def hold_up() -> None:
        sent_s.append(time.monotonic())
        punctual.far.send(b"done")
        time.sleep(HELD_UP_S)

    slow, punctual = Listener(hold_up), Listener()
    unheard_for_s: list[float] = []
    over = Event()

    def tick(now_s: float) -> None:
        if sent_s and not punctual.heard_s:
            unheard_for_s.append(now_s - sent_s[0])
        if punctual.heard_s:
            over.set()

    loop = EventLoop(tick, on_crash=over.set)
    loop.listen(slow)
    loop.listen(punctual)
    loop.start()
    slow.far.send(b"begin")
    assert over.wait(60)
    loop.close()
    assert loop.crash is None
    assert punctual.heard_s[0] - sent_s[0] >= HELD_UP_S
    assert unheard_for_s, "it was heard in the same round"
    assert max(unheard_for_s) <= 0.0, "by the time it judged by, the message had not come"
