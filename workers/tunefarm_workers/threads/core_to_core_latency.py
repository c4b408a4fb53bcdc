"""Detects whether two cores share a cache, from the latency between their threads. Imports nothing of TVM."""

import ctypes
import time
from typing import Final

_MAX_NEAR_RATIO: Final = 3.8
"""Ratio of the time of two threads to that of one: 3.1 with a shared cache, 4.8 without. Of a thousand measurements of
each, 99% were below 3.7 and above 3.9."""
_BATCHES, _CALLS = 5, 100
"""The fastest batch counts; all take a millisecond."""
_MAX_BATCH_S: Final = 0.01
"""A slower batch shares its cores with other processes. No batch follows it: each call may take a time slice."""


class CoreToCoreLatency:
    """Compares one thread with two that synchronize. The process has placed its threads, which are at least two."""

    def __init__(self, runtime: ctypes.CDLL) -> None:
        """``runtime`` is the TVM runtime that this process has loaded."""
        self._launch = runtime.TVMBackendParallelLaunch
        self._launch.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
        self._meet = ctypes.cast(runtime.TVMBackendParallelBarrier, ctypes.c_void_p)

    def ratio(self) -> float:
        """Return how many times longer two threads take to start, meet at a barrier and end than one."""
        return self._seconds(2) / self._seconds(1)

    def is_near(self) -> bool:
        """Whether the first two threads communicate through a shared cache."""
        return self.ratio() < _MAX_NEAR_RATIO

    def _seconds(self, threads: int) -> float:
        fastest_s = self._batch(threads)
        for _ in range(_BATCHES - 1):
            if fastest_s > _MAX_BATCH_S:
                break
            fastest_s = min(fastest_s, self._batch(threads))
        return fastest_s

    def _batch(self, threads: int) -> float:
        start_s = time.perf_counter()
        for _ in range(_CALLS):
            self._launch(self._meet, None, threads)
        return time.perf_counter() - start_s
