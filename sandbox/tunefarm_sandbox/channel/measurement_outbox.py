"""What a farm's threads have for its caller, with a descriptor to wait on."""

import os
import select
import threading
from collections import deque
from collections.abc import Callable, Sequence

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.measurement import Measurement


class MeasurementOutbox:
    """Filled by any number of threads, emptied by one caller."""

    def __init__(self) -> None:
        self._entries: deque[Measurement | BadInput] = deque()
        self._lock = threading.Lock()
        self._ready = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def put(self, entry: Measurement | BadInput) -> None:
        """Have it taken, or raised."""
        with self._lock:
            self._entries.append(entry)
            self._wake()

    def wake(self) -> None:
        """Have the caller look."""
        with self._lock:
            self._wake()

    def take(self, timeout_s: float | None, raise_crash: Callable[[], None]) -> list[Measurement]:
        """What is there; waits up to ``timeout_s`` for the first, for ever when None.

        ``raise_crash`` raises what ended a thread that fills it, where one ended.

        Raises:
            BadInput: when one was put; what lay beside it comes with the next call.
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
        """Readable when ``take`` would return something; negative once closed."""
        return self._ready

    def close(self) -> None:
        """Close the descriptor; harmless when repeated."""
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
