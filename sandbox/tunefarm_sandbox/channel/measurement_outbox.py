"""A queue of measurements from the threads of a farm to its caller, with a descriptor to wait on."""

import os
import select
import threading
from collections import deque
from collections.abc import Callable, Sequence

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.measurement import Measurement


class MeasurementOutbox:
    """A queue that any number of threads fill and one caller empties."""

    def __init__(self) -> None:
        self._entries: deque[Measurement | BadInput] = deque()
        self._lock = threading.Lock()
        self._ready = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def put(self, entry: Measurement | BadInput) -> None:
        """Queue ``entry``; ``take`` returns a measurement and raises a ``BadInput``."""
        with self._lock:
            self._entries.append(entry)
            self._wake()

    def wake(self) -> None:
        """Wake the caller of ``take``."""
        with self._lock:
            self._wake()

    def take(self, timeout_s: float | None, raise_crash: Callable[[], None]) -> list[Measurement]:
        """Return all queued measurements; wait up to ``timeout_s`` for the first, for ever when None.

        ``raise_crash`` re-raises the exception that ended a filling thread, if one ended.

        Raises:
            BadInput: when one was put; the next call returns the other entries.
        """
        waiting = select.poll()
        waiting.register(self._ready, select.POLLIN)
        if not waiting.poll(None if timeout_s is None else timeout_s * 1000):
            return []
        raise_crash()
        with self._lock:
            os.eventfd_read(self._ready)
            ready = list(self._entries)
            self._entries.clear()
        for index, entry in enumerate(ready):
            if isinstance(entry, BadInput):
                self._put_back(ready[:index] + ready[index + 1 :])
                raise entry
        return [entry for entry in ready if isinstance(entry, Measurement)]

    def fileno(self) -> int:
        """The descriptor that is readable when ``take`` would return something; negative once closed."""
        return self._ready

    def close(self) -> None:
        """Close the descriptor; idempotent."""
        with self._lock:
            if self._ready >= 0:
                os.close(self._ready)
                self._ready = -1

    def _wake(self) -> None:
        if self._ready >= 0:
            os.eventfd_write(self._ready, 1)

    def _put_back(self, entries: Sequence[Measurement | BadInput]) -> None:
        if entries:
            with self._lock:
                self._entries.extendleft(reversed(entries))
                self._wake()
