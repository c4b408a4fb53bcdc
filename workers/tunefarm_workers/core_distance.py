"""Whether two cores are as near to each other as their operating system says. Imports nothing of TVM's packages.

Two cores of a virtual machine that share a cache may run on physical cores that do not: the host moves them apart now
and then, for a part of a second or for ten of them. Whatever one thread leaves to the other takes six times as long
then, which adds microseconds to every parallel loop.
"""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_FAR: Final = 3.8
"""So many times longer two threads take to start, meet and end than one: 3.1 on near cores, 4.8 on distant ones. Of a
thousand looks at either, 99% were below 3.7 and above 3.9."""
_BATCHES, _CALLS = 5, 100
"""The fastest batch counts; all of them take a millisecond."""
_LOOK_S: Final = 0.1
_MATTERS_S: Final = 500e-6
"""A kernel that takes longer shows no difference beyond the noise of its own."""
PATIENCE_S: Final = 12.0
"""The longest that the host of a virtual machine was seen to keep its cores apart."""
_CACHE: Final = Path("/sys/devices/system/cpu")


class CoreDistance:
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


class NearCores:
    """Waits until cores that should be near are, for whoever times many processes: not again where that was in vain."""

    def __init__(
        self, cores: list[int], patience_s: float = PATIENCE_S, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        """``cores`` are those of the kernel's threads."""
        self._should_be_near = len(cores) >= 2 and share_a_cache(cores[0], cores[1])
        self._patience_s = patience_s
        self._sleep = sleep
        self._in_vain = False

    def wait(self, latency_s: float, is_near: Callable[[], bool], goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Wait, as long as ``goes_on``, before a kernel of about ``latency_s`` is timed; whether its time will do."""
        if not self._should_be_near or latency_s > _MATTERS_S:
            return True
        waited_s = 0.0
        while not (near := is_near()) and not self._in_vain and goes_on():
            self._in_vain = waited_s >= self._patience_s
            self._sleep(_LOOK_S)
            waited_s += _LOOK_S
        self._in_vain = self._in_vain and not near
        return near


def share_a_cache(one: int, other: int) -> bool:
    """Whether the operating system says that two cores share their last cache; False where it says nothing."""
    try:
        last = max((_CACHE / f"cpu{one}" / "cache").glob("index[0-9]"))
        return other in _numbers((last / "shared_cpu_list").read_text())
    except (OSError, ValueError):
        return False


def _numbers(text: str) -> set[int]:
    """Of a list of ranges such as 0-3,8."""
    parts = [part.partition("-") for part in text.strip().split(",")]
    return {number for first, _, last in parts for number in range(int(first), int(last or first) + 1)}
