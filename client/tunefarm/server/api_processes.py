"""A prefork server: API processes that share one listening socket, restarted when they die."""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Final, NoReturn

import structlog

from tunefarm.server.api_server import GRACE_S
from tunefarm.server.parent_watch import die_with

END_WITHIN_S: Final = GRACE_S + 1.0
SOUND_S: Final = 10.0
"""A process that ran at least this long is restarted at once; any other after a pause."""
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
_STOPS: Final = (signal.SIGINT, signal.SIGTERM)

log = structlog.get_logger()


@dataclass
class _Place:
    """A slot for one process, kept over restarts."""

    number: int
    pid: int = 0
    pidfd: int = -1
    began_s: float = 0.0
    pause_s: float = 0.0
    due_s: float = 0.0


class ApiProcesses:
    """Forks of this process, which has loaded all modules and opened no connection.

    A fork shares the loaded memory, so it costs a few MB and starts within milliseconds. All accept connections from
    one listening socket: when one dies, the others accept the connections that are still queued.
    """

    def __init__(self, number: int, work: Callable[[int], None], on_death: Callable[[int], None]) -> None:
        """``work`` is called in each process with its number, and serves until SIGTERM.

        ``on_death`` is called here with the id of a process that has died.
        """
        self._places = [_Place(each) for each in range(number)]
        self._work = work
        self._on_death = on_death
        self._parent = os.getpid()
        self._stop = 0

    def run(self) -> None:
        """Keep the processes running until SIGINT or SIGTERM, and return when all have ended.

        Raises:
            KeyboardInterrupt: on SIGINT.
        """
        with self._stop_noted() as wakened:
            try:
                while not self._stop:
                    self._start_those_due()
                    self._wait(wakened)
            finally:
                self._end()
        if self._stop == signal.SIGINT:
            raise KeyboardInterrupt

    def _start_those_due(self) -> None:
        for place in self._places:
            if place.pid == 0 and time.monotonic() >= place.due_s:
                self._start(place)

    def _start(self, place: _Place) -> None:
        place.began_s = time.monotonic()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            self._serve(place.number)
        place.pid, place.pidfd = pid, os.pidfd_open(pid)

    def _serve(self, number: int) -> NoReturn:
        """Run one of the processes; called in the fork."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            # In its own session, so that Ctrl-C reaches only the parent, which then stops the others in order.
            os.setsid()
            for stop in _STOPS:
                signal.signal(stop, _end_in_order)
            if die_with(self._parent):
                self._work(number)
            status = 0
        except SystemExit:
            status = 0
        except BaseException as error:
            log.error("an API process failed", exc_info=error)
        finally:
            os._exit(status)

    def _wait(self, wakened: int) -> None:
        """Wait until a signal arrives, a process ends, or a restart is due."""
        waiting = select.poll()
        waiting.register(wakened, select.POLLIN)
        for place in self._places:
            if place.pid:
                waiting.register(place.pidfd, select.POLLIN)
        due = [place.due_s - time.monotonic() for place in self._places if not place.pid]
        waiting.poll(max(0.0, min(due)) * 1e3 if due else None)
        for place in self._places:
            self._dispose(place)

    def _dispose(self, place: _Place) -> None:
        """Reap a process if it has ended."""
        if not place.pid:
            return
        pid, status = os.waitpid(place.pid, os.WNOHANG)
        if not pid:
            return
        os.close(place.pidfd)
        self._on_death(pid)
        place.pid, place.pidfd = 0, -1
        if self._stop:
            return
        now_s = time.monotonic()
        is_sound = now_s - place.began_s > SOUND_S
        place.pause_s = 0.0 if is_sound else min(max(FIRST_PAUSE_S, 2 * place.pause_s), LONGEST_PAUSE_S)
        place.due_s = now_s + place.pause_s
        code = os.waitstatus_to_exitcode(status)
        log.error("an API process ended and is replaced", process=pid, exit_code=code, after_s=place.pause_s)

    def _end(self) -> None:
        """Stop all processes in order, and kill those that exceed the deadline."""
        self._stop = self._stop or signal.SIGTERM
        self._signal(signal.SIGTERM)
        deadline_s = time.monotonic() + END_WITHIN_S
        while any(place.pid for place in self._places):
            if time.monotonic() > deadline_s:
                self._signal(signal.SIGKILL)
            time.sleep(0.01)
            for place in self._places:
                self._dispose(place)

    def _signal(self, number: int) -> None:
        for place in self._places:
            if place.pid:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(place.pidfd, number)

    @contextmanager
    def _stop_noted(self) -> Iterator[int]:
        """Record SIGINT and SIGTERM inside the block; yields a descriptor that becomes readable on a signal."""
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        before = {stop: signal.signal(stop, self._note) for stop in _STOPS}
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        try:
            yield read
        finally:
            signal.set_wakeup_fd(-1)
            for stop, handler in before.items():
                signal.signal(stop, handler)
            os.close(read)
            os.close(write)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._stop = self._stop or number


def _end_in_order(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)
