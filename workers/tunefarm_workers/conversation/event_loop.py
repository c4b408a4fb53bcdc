"""A thread that receives messages from children and calls from other threads."""

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

T = TypeVar("T")


class Conversation(Protocol):
    """A channel and the handlers of its events. All methods run on the loop's thread."""

    @property
    def channel(self) -> Channel:
        """The channel that is listened to."""

    def received(self, message: bytes) -> None:
        """Handle a complete message."""

    def ended(self) -> None:
        """Handle the end of the channel, closed or with invalid data; no further calls follow."""


class ChildConversation(Conversation, Protocol):
    """A conversation with a child of this host."""

    @property
    def child(self) -> Child:
        """The child that is listened to."""


class EventLoop:
    """Calls conversations when messages arrive, and callables that other threads post."""

    def __init__(self, on_tick: Callable[[float], float | None], on_crash: Callable[[], None]) -> None:
        """``on_tick`` is called after every event, and returns when to call it next.

        Its argument is the monotonic time up to which all messages have been read. Deadlines are compared with it, so
        that a slow handler makes no child late.

        ``on_crash`` is called when an error ends the thread; ``crash`` holds the error.
        """
        self._on_tick = on_tick
        self._on_crash = on_crash
        self._selector = selectors.DefaultSelector()
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        self._calls: deque[Callable[[], None]] = deque()
        self._closing = False
        self.crash: Exception | None = None
        """The error, a bug in this software, that ended the thread. Nothing is answered after it."""
        self._thread = threading.Thread(target=self._run, name="lane", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def listen(self, conversation: Conversation) -> None:
        """Start listening."""
        self._selector.register(conversation.channel.fileno(), selectors.EVENT_READ, conversation)

    def forget(self, conversation: Conversation) -> None:
        """Stop listening; idempotent, also after the channel is closed."""
        for key in list(self._selector.get_map().values()):
            if key.data is conversation:
                self._selector.unregister(key.fd)

    def post(self, call: Callable[[], None]) -> None:
        """Call ``call`` on the loop's thread, soon."""
        self._calls.append(call)
        os.eventfd_write(self._wakeup, 1)

    def wake(self) -> None:
        """Request a tick, from any thread; no effect once the loop is closing."""
        if not self._closing:
            os.eventfd_write(self._wakeup, 1)

    def ask(self, call: Callable[[], T]) -> T:
        """Call ``call`` on the loop's thread, and return its result or raise its error."""
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call())
            except Exception as error:  # noqa: BLE001 - handed to the thread that asked
                answer.set_exception(error)

        self.post(run)
        return self.wait_for(answer)

    def wait_for(self, answer: "Future[T]", on_idle: Callable[[], None] = lambda: None) -> T:
        """Wait for the result that the loop's thread will set; call ``on_idle`` now and then meanwhile."""
        while True:
            try:
                return answer.result(timeout=_MAX_IDLE_S)
            except FutureTimeoutError:
                self.raise_crash()
                on_idle()

    def raise_crash(self) -> None:
        """Raise if the thread crashed; ``ForkFailed`` if the fork server was lost."""
        if isinstance(self.crash, ForkFailed):
            raise ForkFailed(self.crash.kind, self.crash.reason) from self.crash
        if self.crash is not None:
            raise RuntimeError("the lane's thread ended with an error") from self.crash

    def close(self) -> None:
        """End the thread after the posted calls."""
        self._closing = True
        os.eventfd_write(self._wakeup, 1)
        self._thread.join()
        self._selector.close()
        os.close(self._wakeup)

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:  # noqa: BLE001 - raised by raise_crash
            self.crash = error
            self._on_crash()

    # 1. Wait for messages, for calls of other threads, or for the time of the next tick.
    # 2. Take the time. Every answer sent before it is read below, so a child whose answer waits in its channel is not
    #    late because this thread was busy.
    # 3. Read one message of each ready channel, so that none starves the others.
    # 4. Make the calls of other threads, including those posted meanwhile.
    # 5. Call the owner, which checks its deadlines against the time of step 2.
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
                    self._read(key.data)
            while self._calls:
                self._calls.popleft()()
            wanted_s = self._on_tick(heard_until_s)

    def _is_listened_to(self, key: selectors.SelectorKey) -> bool:
        """Whether no earlier event of this pass ended the conversation.

        If it closed the channel, the kernel may have given the descriptor's number to a new channel.
        """
        present = self._selector.get_map().get(key.fd)
        return present is not None and present.data is key.data

    def _read(self, conversation: Conversation) -> None:
        try:
            message = conversation.channel.receive(timeout_s=0)
        except TimeoutError:
            return
        except ChannelClosed:
            self.forget(conversation)
            conversation.ended()
            return
        conversation.received(message)
