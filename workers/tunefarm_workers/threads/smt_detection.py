"""Whether threads with a core each share a physical one after all, and how to get them apart. Imports nothing of TVM's.

Two cores of a virtual machine may be the two hardware threads of one physical core. Their host chooses anew whenever a
virtual core wakes up from idling, and sticks to its choice while it is busy. Kernels take up to twice as long then.
"""

import time
from collections.abc import Callable

_SHARED = 1.5
"""So many times longer all threads take than one does alone: 1.0 to 1.2 on cores of their own, 2.0 on a shared one."""
_CALLS = 3
_NAPS, _NAP_S = 100, 0.0001
_BORNE_IN_VAIN = 5
TRIES = 6
"""Bursts of sleeps before giving up."""


def sleep_burst() -> None:
    """Fall asleep and wake up so often that the host has most likely chosen anew; takes some 16 ms."""
    for _ in range(_NAPS):
        time.sleep(_NAP_S)


class SmtDetection:
    """Compares one thread's work done alone with the same work done by all threads at once."""

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

    # All threads do as much work each as the one alone does. On cores of their own both take the same time; on a shared
    # one, whose adders the work keeps busy, the threads halve each other's speed. Only the least of a few times counts:
    # what else runs on the host makes either longer.
    def slowdown(self) -> float:
        """How many times longer the work takes when all threads do it at once."""
        alone_s = min(self._seconds(self._alone) for _ in range(_CALLS))
        together_s = min(self._seconds(self._together) for _ in range(_CALLS))
        return together_s / alone_s

    def separate_threads(self, tries: int) -> bool:
        """Have bursts of sleeps, at most ``tries``, until no thread shares its core; whether that is so now."""
        for _ in range(tries):
            if self.slowdown() < _SHARED:
                return True
            self._sleep_burst()
        return self.slowdown() < _SHARED

    def _seconds(self, call: Callable[[], object]) -> float:
        start_s = self._clock_s()
        call()
        return self._clock_s() - start_s


class SleepBurstBudget:
    """How often to try, for whoever starts many processes: where it never helps, no time is spent on it."""

    def __init__(self, *, can_help: bool = True) -> None:
        """``can_help`` is false where the cores are known to be threads of one physical core."""
        self._can_help = can_help
        self._in_vain = 0

    @property
    def tries(self) -> int:
        """How many bursts of sleeps the next process may have."""
        return TRIES if self._can_help and self._in_vain < _BORNE_IN_VAIN else 0

    def note(self, *, apart: bool) -> None:
        """Take in how one process fared."""
        self._in_vain = 0 if apart else self._in_vain + 1
