"""Detects and separates threads that share a physical core. Imports nothing of TVM.

Two cores of a virtual machine may be hardware threads of one physical core, on which kernels take up to twice as long.
The hypervisor places a virtual core when it wakes up from idling, and does not move it while it is busy. Sleeping often
therefore makes it choose again.
"""

import time
from collections.abc import Callable

_MAX_SLOWDOWN = 1.5
"""Ratio of the time of all threads to that of one: 1.0 to 1.2 on separate physical cores, 2.0 on a shared one."""
_CALLS = 3
_SLEEPS, _SLEEP_S = 100, 0.0001
_MAX_FAILURES = 5
TRIES = 6
"""Maximum number of sleep bursts."""


def sleep_burst() -> None:
    """Sleep so often that the hypervisor has most likely placed this core again; takes about 16 ms."""
    for _ in range(_SLEEPS):
        time.sleep(_SLEEP_S)


class SmtDetection:
    """Compares the time of one thread with that of all threads, each with the same work."""

    def __init__(
        self,
        alone: Callable[[], object],
        together: Callable[[], object],
        sleep_burst: Callable[[], object] = sleep_burst,
        clock_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._alone = alone
        self._together = together
        self._sleep_burst = sleep_burst
        self._clock_s = clock_s

    # On separate physical cores both take the same time; on a shared one, whose adders the work saturates, the threads
    # halve each other's speed. The fastest of a few calls counts, because other load makes calls only longer.
    def slowdown(self) -> float:
        """Return how many times longer the work takes with all threads."""
        alone_s = min(self._seconds(self._alone) for _ in range(_CALLS))
        together_s = min(self._seconds(self._together) for _ in range(_CALLS))
        return together_s / alone_s

    def separate_threads(self, tries: int) -> bool:
        """Run sleep bursts, at most ``tries``, until no threads share a physical core; whether none do."""
        for _ in range(tries):
            if self.slowdown() < _MAX_SLOWDOWN:
                return True
            self._sleep_burst()
        return self.slowdown() < _MAX_SLOWDOWN

    def _seconds(self, call: Callable[[], object]) -> float:
        start_s = self._clock_s()
        call()
        return self._clock_s() - start_s


class SleepBurstBudget:
    """Limits sleep bursts over many processes: where they do not help, no time is spent on them."""

    def __init__(self, *, can_help: bool = True) -> None:
        """``can_help`` is false if the guest knows the cores to be threads of one physical core."""
        self._can_help = can_help
        self._failures = 0

    @property
    def tries(self) -> int:
        """How many sleep bursts the next process may run."""
        return TRIES if self._can_help and self._failures < _MAX_FAILURES else 0

    def note(self, *, apart: bool) -> None:
        """Record the outcome of one process."""
        self._failures = 0 if apart else self._failures + 1
