"""A forked process that acts when it is told to."""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress

WAITING_S = 0.2
"""What does not wait ends within less."""


class OtherProcess:
    """``action`` in a process of its own, which ends with status 0 unless it raises."""

    def __init__(self, action: Callable[[], object]) -> None:
        waiting, self._telling = os.pipe()
        self._ending, ended = os.pipe()
        self._status: int | None = None
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            with suppress(BaseException):
                os.close(self._telling)
                if os.read(waiting, 1):
                    action()
                    status = 0
            os._exit(status)
        os.close(waiting)
        os.close(ended)

    def begin(self) -> None:
        """Tell it to act."""
        os.write(self._telling, b"!")

    def waits(self) -> bool:
        """Whether it goes on for a while."""
        return not select.select([self._ending], [], [], WAITING_S)[0]

    def ends_well(self) -> bool:
        """Wait for its end."""
        self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._status == 0

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            self.ends_well()
        os.close(self._telling)
        os.close(self._ending)
