"""Waiting until cores that should be near to each other are.

Two cores of a virtual machine that share a cache, as its operating system says, may run on physical cores that do not:
the host moves them apart now and then, for a part of a second or for ten of them. Whatever one thread leaves to the
other takes six times as long then, which adds microseconds to every parallel loop.
"""

import time
from collections.abc import Callable
from typing import Final

from tunefarm_workers.device.cpu_identity import may_be_moved_apart

PATIENCE_S: Final = 3.0
"""Quiet hosts mostly keep cores apart for less; busy ones for half of all time, and nobody is to wait for that."""
_GROWS_BACK: Final = 0.05
"""Seconds of patience that come back with each second."""
_LOOK_S: Final = 0.1
_MATTERS_S: Final = 500e-6
"""A kernel that takes longer shows no difference beyond the noise of its own."""


class SharedCacheWait:
    """For whoever times many processes: all of them wait for ``PATIENCE_S`` together, and slowly for more."""

    def __init__(
        self,
        cores: list[int],
        sleep: Callable[[float], object] = time.sleep,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``cores`` are those of the kernel's threads."""
        self._may_be_apart = len(cores) >= 2 and may_be_moved_apart(cores[0], cores[1])
        self._sleep = sleep
        self._clock_s = clock_s
        self._patience_s = PATIENCE_S
        self._since_s = clock_s()

    def wait(self, latency_s: float, is_near: Callable[[], bool], goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Wait, as long as ``goes_on``, before a kernel of about ``latency_s`` is timed; whether its time will do."""
        if not self._may_be_apart or latency_s > _MATTERS_S:
            return True
        now_s = self._clock_s()
        self._patience_s = min(self._patience_s + _GROWS_BACK * (now_s - self._since_s), PATIENCE_S)
        self._since_s = now_s
        while not (near := is_near()) and self._patience_s > 0 and goes_on():
            self._sleep(_LOOK_S)
            self._patience_s -= _LOOK_S
        return near
