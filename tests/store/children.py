"""Forked processes, which need not load the store."""

import os
from collections.abc import Callable


class Child:
    """A process that returns a text."""

    def __init__(self, action: Callable[[], str]) -> None:
        """Start it."""
        self._reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.write(writing, action().encode())
            except BaseException as error:  # noqa: BLE001 - the test reports it
                os.write(writing, repr(error).encode())
                os._exit(1)
            os._exit(0)
        os.close(writing)

    def exit_status(self) -> int:
        """Wait for its end."""
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def answer(self) -> str:
        """What it returned."""
        with os.fdopen(self._reading) as answer:
            text = answer.read()
        assert self.exit_status() == 0, text
        return text
