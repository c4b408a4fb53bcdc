"""Waits until virtual cores share the cache that they should share.

Two cores of a virtual machine with a common cache, according to the guest, may run on physical cores without one: the
hypervisor moves them apart now and then, for up to ten seconds. Communication between the threads then takes six times
as long, which adds microseconds to every parallel loop.
"""

import time
from collections.abc import Callable
from typing import Final

from tunefarm_workers.device.cpu_identity import may_be_moved_apart

_MAX_BUDGET_S: Final = 3.0
"""Quiet hosts mostly keep cores apart for less; busy ones half of the time, which is too long to wait for."""
_BUDGET_PER_S: Final = 0.05
"""Budget regained with each second."""
_POLL_S: Final = 0.1
_MAX_LATENCY_S: Final = 500e-6
"""In longer kernels the difference is below the noise."""


class SharedCacheWait:
    """A budget of waiting time, shared by all the processes that a lane times."""

    def __init__(
        self,
        cores: list[int],
        sleep: Callable[[float], object] = time.sleep,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``cores`` are the cores of the kernel's threads."""
        self._may_be_apart = len(cores) >= 2 and may_be_moved_apart(cores[0], cores[1])
        self._sleep = sleep
        self._clock_s = clock_s
        self._budget_s = _MAX_BUDGET_S
        self._since_s = clock_s()

    def wait(
        self, latency_s: float, is_near: Callable[[], bool], may_continue: Callable[[], bool] = lambda: True
    ) -> bool:
        """Wait before timing a kernel of about ``latency_s``; False if the cores still do not share a cache."""
        if not self._may_be_apart or latency_s > _MAX_LATENCY_S:
            return True
        now_s = self._clock_s()
        self._budget_s = min(self._budget_s + _BUDGET_PER_S * (now_s - self._since_s), _MAX_BUDGET_S)
        self._since_s = now_s
        while not (near := is_near()) and self._budget_s > 0 and may_continue():
            self._sleep(_POLL_S)
            self._budget_s -= _POLL_S
        return near
