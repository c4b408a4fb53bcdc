"""One thread that listens to children and to its owner."""

import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Protocol, TypeVar

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed

_MAX_IDLE_S = 0.25

Given = TypeVar("Given")


class Conversation(Protocol):
    """One channel, and what to do about what comes through it. All methods run on the loop's thread."""

    @property
    def channel(self) -> Channel:
        """The channel that is listened to."""

    def received(self, message: bytes) -> None:
        """A whole message came."""

    def ended(self) -> None:
        """The channel closed or carried nonsense; nothing more will come."""


class ChildConversation(Conversation, Protocol):
    """A conversation with a child of this host."""

    @property
    def child(self) -> Child:
        """The child that is listened to."""


class EventLoop:
    """Calls conversations when something comes for them, and callables that other threads hand in."""

    def __init__(self, on_tick: Callable[[float], float | None], on_crash: Callable[[], None]) -> None:
        """``on_tick`` is called after every event and says when it is wanted again.

        It is given the monotonic time up to which all that came has been heard: by that it may judge who is late,
        however long somebody else's event has taken since.

        ``on_crash`` is called when the thread ends of an error; ``crash`` holds it then.
        """
        self._on_tick = on_tick
        self._on_crash = on_crash
        self._selector = selectors.DefaultSelector()
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        self._calls: deque[Callable[[], None]] = deque()
        self._closing = False
        self.crash: Exception | None = None
        """What ended the thread too early: a fault of this software. Nothing is answered after it."""
        self._thread = threading.Thread(target=self._run, name="lane", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def listen(self, conversation: Conversation) -> None:
        """Begin to listen."""
        self._selector.register(conversation.channel.fileno(), selectors.EVENT_READ, conversation)

    def forget(self, conversation: Conversation) -> None:
        """Stop listening; harmless when repeated or when the channel is closed already."""
        for key in list(self._selector.get_map().values()):
            if key.data is conversation:
                self._selector.unregister(key.fd)

    def post(self, call: Callable[[], None]) -> None:
        """Have ``call`` made on the loop's thread, soon."""
        self._calls.append(call)
        os.eventfd_write(self._wakeup, 1)

    def wake(self) -> None:
        """Have the owner called soon, from any thread; nothing once the loop is being closed."""
        if not self._closing:
            os.eventfd_write(self._wakeup, 1)

    def ask(self, call: Callable[[], Given]) -> Given:
        """Have ``call`` made on the loop's thread and give what it gives, or raise what it raises."""
        answer: Future[Given] = Future()

        def make() -> None:
            try:
                answer.set_result(call())
            except Exception as error:  # noqa: BLE001 - handed to the thread that asked
                answer.set_exception(error)

        self.post(make)
        return self.wait_for(answer)

    def wait_for(self, answer: "Future[Given]", on_idle: Callable[[], None] = lambda: None) -> Given:
        """What the loop's thread will set as the result of ``answer``; ``on_idle`` is called now and then meanwhile."""
        while True:
            try:
                return answer.result(timeout=_MAX_IDLE_S)
            except FutureTimeoutError:
                self.raise_crash()
                on_idle()

    def raise_crash(self) -> None:
        """Raise when the thread ended too early; ``ForkFailed`` when that was for want of a fork server."""
        if isinstance(self.crash, ForkFailed):
            raise ForkFailed(self.crash.kind, self.crash.reason) from self.crash
        if self.crash is not None:
            raise RuntimeError("the lane's thread ended of an error") from self.crash

    def close(self) -> None:
        """End the thread once the calls that were posted are made."""
        self._closing = True
        os.eventfd_write(self._wakeup, 1)
        self._thread.join()
        self._selector.close()
        os.close(self._wakeup)

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:  # noqa: BLE001 - handed to whoever asks next
            self.crash = error
            self._on_crash()

    # 1. Wait for messages, for calls of other threads, or for the moment that the owner asked for.
    # 2. Take the time. All that was sent before it is heard below, so a child whose answer lies in its channel is not
    #    late for want of this thread, and the owner judges deadlines by this time and not by the present one.
    # 3. Hear one message of each channel that has any: none keeps the others waiting.
    # 4. Make the calls of other threads, including those that came meanwhile.
    # 5. Let the owner look at its deadlines, whatever happened.
    def _serve(self) -> None:
        wanted_s: float | None = None
        while not (self._closing and not self._calls):
            now_s = time.monotonic()
            idle_s = _MAX_IDLE_S if wanted_s is None else min(max(wanted_s - now_s, 0.0), _MAX_IDLE_S)
            ready = self._selector.select(idle_s)
            heard_until_s = time.monotonic()
            for key, _ in ready:
                if key.data is None:
                    os.eventfd_read(self._wakeup)
                elif self._is_listened_to(key):
                    self._hear(key.data)
            while self._calls:
                self._calls.popleft()()
            wanted_s = self._on_tick(heard_until_s)

    def _is_listened_to(self, key: selectors.SelectorKey) -> bool:
        """Whether an earlier event of the same moment has not ended this conversation.

        It may have closed the channel, and the system may have given its number to a new one, which is read in its
        turn.
        """
        present = self._selector.get_map().get(key.fd)
        return present is not None and present.data is key.data

    def _hear(self, conversation: Conversation) -> None:
        try:
            message = conversation.channel.receive(timeout_s=0)
        except TimeoutError:
            return
        except ChannelClosed:
            self.forget(conversation)
            conversation.ended()
            return
        conversation.received(message)
