"""What a farm has for its caller, with a descriptor to wait on."""

import os
import select
import threading
from collections import deque

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.measurement import Measurement


class FarmOutbox:
    """Filled by threads, emptied by one caller."""

    def __init__(self) -> None:
        self._entries: deque[Measurement | BadInput] = deque()
        self._lock = threading.Lock()
        self._ready = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._crash: Exception | None = None

    def put(self, entry: Measurement | BadInput) -> None:
        """Have it taken, or raised."""
        with self._lock:
            self._entries.append(entry)
        self.wake()

    def fail(self, crash: Exception) -> None:
        """Have whoever takes next hear that a thread ended of an error."""
        self._crash = crash
        self.wake()

    def wake(self) -> None:
        """Have the caller look."""
        if self._ready >= 0:
            os.eventfd_write(self._ready, 1)

    def raise_crash(self) -> None:
        """Raise RuntimeError when a thread ended of an error."""
        if self._crash is not None:
            raise RuntimeError("a thread of the farm ended of an error") from self._crash

    def take(self, timeout_s: float | None) -> list[Measurement]:
        """What is there; waits for the first. Raises BadInput where one was put, in its turn."""
        waiting = select.poll()
        waiting.register(self._ready, select.POLLIN)
        if not waiting.poll(None if timeout_s is None else timeout_s * 1000):
            return []
        self.raise_crash()
        ready: list[Measurement] = []
        with self._lock:
            problem: BadInput | None = None
            while self._entries and problem is None:
                entry = self._entries[0]
                if isinstance(entry, BadInput):
                    if ready:
                        break
                    problem = entry
                else:
                    ready.append(entry)
                self._entries.popleft()
            if not self._entries:
                os.eventfd_read(self._ready)
        if problem is not None:
            raise problem
        return ready

    def fileno(self) -> int:
        """Readable when ``take`` would return something."""
        return self._ready

    def close(self) -> None:
        """Close the descriptor."""
        with self._lock:
            if self._ready >= 0:
                os.close(self._ready)
                self._ready = -1
