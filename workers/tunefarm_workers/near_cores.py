"""Waiting until cores that should be near to each other are.

Two cores of a virtual machine that share a cache, as its operating system says, may run on physical cores that do not:
the host moves them apart now and then, for a part of a second or for ten of them. Whatever one thread leaves to the
other takes six times as long then, which adds microseconds to every parallel loop.
"""

import time
from collections.abc import Callable
from typing import Final

from tunefarm_workers.cpu_identity import may_be_moved_apart

PATIENCE_S: Final = 5.0
"""Hosts mostly keep cores apart for less, seldom for half a minute, which is longer than a short search takes."""
_LOOK_S: Final = 0.1
_MATTERS_S: Final = 500e-6
"""A kernel that takes longer shows no difference beyond the noise of its own."""


class NearCores:
    """For whoever times many processes: where waiting was in vain, the next ones do not wait."""

    def __init__(
        self, cores: list[int], patience_s: float = PATIENCE_S, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        """``cores`` are those of the kernel's threads."""
        self._may_be_apart = len(cores) >= 2 and may_be_moved_apart(cores[0], cores[1])
        self._patience_s = patience_s
        self._sleep = sleep
        self._in_vain = False

    def wait(self, latency_s: float, is_near: Callable[[], bool], goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Wait, as long as ``goes_on``, before a kernel of about ``latency_s`` is timed; whether its time will do."""
        if not self._may_be_apart or latency_s > _MATTERS_S:
            return True
        waited_s = 0.0
        while not (near := is_near()) and not self._in_vain and goes_on():
            self._in_vain = waited_s >= self._patience_s
            self._sleep(_LOOK_S)
            waited_s += _LOOK_S
        self._in_vain = self._in_vain and not near
        return near
