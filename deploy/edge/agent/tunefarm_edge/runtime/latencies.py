"""Histograms of latencies in files that the process that runs a model and the agent share."""

import contextlib
import math
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BUCKETS_PER_OCTAVE: Final = 32
"""Bounds are 2.2 % apart."""
MIN_S: Final = 1e-7
OCTAVES: Final = 32
"""Up to seven minutes."""
BUCKETS: Final = BUCKETS_PER_OCTAVE * OCTAVES
_WORDS: Final = BUCKETS + 1
SIZE_BYTES: Final = 8 * _WORDS
_NANOSECONDS: Final = BUCKETS
SUFFIX: Final = ".histogram"


class LatencyRecorder:
    """Counts latencies of one process. A file of 8 KB, whatever the number of runs.

    Processes that may not write there, or to a full file system, count nothing.
    """

    def __init__(self, folder: Path, release_folder: str) -> None:
        self._path = folder / f"{release_folder}@{os.getpid()}{SUFFIX}"
        self._words: memoryview | None = None
        self._is_open = False

    def record(self, latency_s: float) -> None:
        """Count one run."""
        if not self._is_open:
            self._open()
        words = self._words
        if words is not None:
            words[_bucket(latency_s)] += 1
            words[_NANOSECONDS] += int(latency_s * 1e9)

    def _open(self) -> None:
        self._is_open = True
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                os.posix_fallocate(descriptor, 0, SIZE_BYTES)
                self._words = memoryview(mmap.mmap(descriptor, SIZE_BYTES)).cast("Q")
            finally:
                os.close(descriptor)


def _bucket(latency_s: float) -> int:
    if latency_s <= MIN_S:
        return 0
    return min(int(math.log2(latency_s / MIN_S) * BUCKETS_PER_OCTAVE), BUCKETS - 1)


@dataclass(frozen=True)
class Histogram:
    """Counts of buckets, with the sum of all latencies."""

    counts: tuple[int, ...]
    nanoseconds: int

    @staticmethod
    def read(content: bytes) -> "Histogram | None":
        """The histogram in a file; None if it is not one."""
        if len(content) != SIZE_BYTES:
            return None
        words = memoryview(content).cast("Q").tolist()
        return Histogram(tuple(words[:BUCKETS]), words[_NANOSECONDS])

    @property
    def runs(self) -> int:
        """How many runs it counts."""
        return sum(self.counts)

    def since(self, earlier: "Histogram | None") -> "Histogram":
        """What came after an earlier state of the same file."""
        if earlier is None:
            return self
        counts = tuple(max(new - old, 0) for new, old in zip(self.counts, earlier.counts, strict=True))
        return Histogram(counts, max(self.nanoseconds - earlier.nanoseconds, 0))

    @property
    def mean_s(self) -> float:
        """The mean latency."""
        return max(self.nanoseconds / 1e9 / max(self.runs, 1), MIN_S)

    def quantile_s(self, share: float) -> float:
        """The latency that ``share`` of the runs do not exceed, exact to half a bucket."""
        at, left = 0, share * self.runs
        for bucket, count in enumerate(self.counts):
            if count:
                at, left = bucket, left - count
                if left <= 0:
                    break
        return MIN_S * math.exp2((at + 0.5) / BUCKETS_PER_OCTAVE)
