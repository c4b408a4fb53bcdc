"""Ctrl-C: ends a search first, then stops the work cleanly, then ends the process at once."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final, Self

from tunefarm.terminal.exit_code import ExitCode

SHOW_CURSOR: Final = b"\x1b[?25h"
FINISHING: Final = "ending the search: the best so far is verified and shipped (Ctrl-C again pauses the job at once)"
STOPPING: Final = "stopping: everything measured is kept (press again to end at once)"


class Interruption:
    """While entered, SIGINT, SIGTERM and SIGHUP call ``stop`` once; another one ends the process.

    Where there is something to ``finish``, the first SIGINT asks for that instead. The other signals do not: the
    terminal has gone, or the host is about to.

    What the process leaves behind then is safe: everything measured is committed, and its children die with it.
    """

    def __init__(
        self, stop: Callable[[], None], say: Callable[[str], None], *, finish: Callable[[], None] | None = None
    ) -> None:
        self._stop = stop
        self._say = say
        self._finish = finish
        self._previous: dict[int, object] = {}
        self.happened = False

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.happened:
            if sys.stderr.isatty():
                os.write(2, SHOW_CURSOR)
            os._exit(ExitCode.INTERRUPTED)
        finish, self._finish = self._finish, None
        if number == signal.SIGINT and finish is not None:
            finish()
            self._tell(FINISHING)
        else:
            self.happened = True
            self._stop()
            self._tell(STOPPING)

    def _tell(self, text: str) -> None:
        # A signal that arrives in the middle of a line being printed cannot print another one.
        with contextlib.suppress(RuntimeError):
            self._say(text)
