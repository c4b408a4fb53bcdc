"""A forked process for tests of what several processes do with one store or folder."""

import multiprocessing
from collections.abc import Callable
from typing import Final

WAITING_S: Final = 0.2
"""What does not wait ends within less."""


class OtherProcess:
    """Runs ``action`` in a process of its own once ``begin`` is called. Its status is 0 unless ``action`` raises.

    It is forked at once, with the locks that this process holds at that time.
    """

    def __init__(self, action: Callable[[], object]) -> None:
        context = multiprocessing.get_context("fork")
        self._begins = context.Event()
        self._reading, writing = context.Pipe(duplex=False)

        def run() -> None:
            self._begins.wait()
            writing.send(str(action()))

        self._process = context.Process(target=run, daemon=True)
        self._process.start()
        writing.close()

    def begin(self) -> "OtherProcess":
        """Start the action."""
        self._begins.set()
        return self

    def waits(self) -> bool:
        """Whether it still runs after a while."""
        self._process.join(WAITING_S)
        return self._process.is_alive()

    def exit_status(self) -> int | None:
        """Wait for its end."""
        self._process.join()
        return self._process.exitcode

    def answer(self) -> str:
        """What the action returned, as text."""
        assert self.exit_status() == 0
        return str(self._reading.recv())

    def kill(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.join()
