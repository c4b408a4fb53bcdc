"""Ctrl-C: first finishes the search early, then pauses the job, then ends the process at once."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final, Self

from tunefarm.terminal.exit_code import ExitCode

SHOW_CURSOR: Final = b"\x1b[?25h"
FINISHING: Final = "ending the search: the best so far is verified and shipped (Ctrl-C again pauses the job at once)"
STOPPING: Final = "stopping: everything measured is kept (press again to end at once)"


class Interruption:
    """Inside the block, SIGINT, SIGTERM and SIGHUP call ``stop`` once; a further signal ends the process.

    With ``finish``, the first SIGINT calls it instead. SIGTERM and SIGHUP do not: the terminal is closed or the host
    shuts down, so there is no time to verify.

    Ending the process is safe: all measurements are committed, and its children die with it.
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

    def __exit__(self, *_: object) -> None:
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
        # Printing is not reentrant: a signal during a print raises RuntimeError here.
        with contextlib.suppress(RuntimeError):
            self._say(text)
