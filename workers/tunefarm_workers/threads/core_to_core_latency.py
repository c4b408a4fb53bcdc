"""Whether two cores are near to each other: how long the first two threads take to meet. Imports nothing of TVM's."""

import ctypes
import time
from typing import Final

_FAR: Final = 3.8
"""So many times longer two threads take to start, meet and end than one: 3.1 on near cores, 4.8 on distant ones. Of a
thousand looks at either, 99% were below 3.7 and above 3.9."""
_BATCHES, _CALLS = 5, 100
"""The fastest batch counts; all of them take a millisecond."""


class CoreToCoreLatency:
    """Compares what the first thread does alone with what the first two do together, in a process that has placed them.

    The runtime's threads must number at least two.
    """

    def __init__(self, runtime: ctypes.CDLL) -> None:
        """``runtime`` is TVM's runtime as this process has loaded it."""
        self._launch = runtime.TVMBackendParallelLaunch
        self._launch.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
        self._meet = ctypes.cast(runtime.TVMBackendParallelBarrier, ctypes.c_void_p)

    def ratio(self) -> float:
        """How many times longer two threads take to start, to meet at a barrier and to end than one does."""
        return self._seconds(2) / self._seconds(1)

    def is_near(self) -> bool:
        """Whether what one leaves to the other arrives through a cache that they share."""
        return self.ratio() < _FAR

    def _seconds(self, threads: int) -> float:
        return min(self._batch(threads) for _ in range(_BATCHES))

    def _batch(self, threads: int) -> float:
        start_s = time.perf_counter()
        for _ in range(_CALLS):
            self._launch(self._meet, None, threads)
        return time.perf_counter() - start_s
