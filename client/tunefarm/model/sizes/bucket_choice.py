"""Chooses the sizes of buckets for a range of sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MAX_REGRET: Final = 0.05
"""What choosing aims at: no size is served more than 5% slower than alone."""
_ROUNDING: Final = 1e-12

_Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BucketChoice:
    """Sizes of buckets, ascending; the last is the end of the range.

    Regrets are relative: a size that takes 1.05 times as long in its bucket as alone has 0.05.
    """

    sizes: tuple[int, ...]
    max_regret: float


def choose_buckets(
    low: int, times_s: Sequence[float], max_buckets: int, max_regret: float = MAX_REGRET
) -> BucketChoice:
    """The fewest buckets that keep the regret of each size, which the next larger bucket serves, below a bound.

    Where ``max_buckets`` do not attain the bound, all of them are used. Among choices with equally many buckets, one
    with the smallest maximum is taken, and among those one with the smallest mean.

    Dynamic programming over sizes: O(max_buckets * n^2) operations for n sizes.

    Args:
        low: the smallest size.
        times_s: seconds of a run at each of the sizes ``low``, ``low + 1``, ...; positive.
        max_buckets: at least 1.
        max_regret: the bound.
    """
    times = np.asarray(times_s, dtype=np.float64)
    least = _least_maxima(times, min(max_buckets, len(times)), max_regret)
    count = next((k for k, found in enumerate(least, 1) if found <= max_regret), len(least))
    ends = _least_mean(times, count, least[count - 1] + _ROUNDING)
    return BucketChoice(tuple(low + end for end in ends), float(least[count - 1]))


def interpolated(low: int, high: int, sizes: Sequence[int], times_s: Sequence[float]) -> list[float]:
    """Seconds at each size from ``low`` to ``high``, linear between measured ones.

    Times are made to increase with the size first: where they do not, they were disturbed.
    """
    rising = np.maximum.accumulate(np.asarray(times_s, dtype=np.float64))
    return [float(each) for each in np.interp(np.arange(low, high + 1), sizes, rising)]


def sampled_sizes(low: int, high: int, count: int) -> tuple[int, ...]:
    """At most ``count`` sizes from ``low`` to ``high``, both included, at equal ratios."""
    ratios = np.linspace(0.0, 1.0, min(count, high - low + 1))
    return tuple(sorted({round(low * (high / low) ** float(ratio)) for ratio in ratios}))


def _regrets(times: _Times, end: int) -> _Times:
    """The largest regret of a bucket that serves the sizes from each index up to ``end``."""
    fastest = np.minimum.accumulate(times[: end + 1][::-1])[::-1]
    return np.asarray(times[end] / fastest - 1.0)


def _least_maxima(times: _Times, max_buckets: int, bound: float) -> list[float]:
    """The least attainable maximum for 1, 2, ... buckets; ends at the first within the bound."""
    count = len(times)
    regrets = [_regrets(times, end) for end in range(count)]
    best = np.array([each[0] for each in regrets])  # of the sizes up to each index, in so many buckets
    found = [float(best[-1])]
    while len(found) < max_buckets and found[-1] > bound:
        before = np.concatenate([[0.0], best[:-1]])
        best = np.array([np.maximum(before[: end + 1], regrets[end]).min() for end in range(count)])
        found.append(float(best[-1]))
    return found


def _least_mean(times: _Times, count: int, limit: float) -> list[int]:
    """The ends of ``count`` buckets with regrets up to ``limit`` and the least sum of the regrets of all sizes."""
    sizes = len(times)
    inverse = np.concatenate([[0.0], np.cumsum(1.0 / times)])
    best = np.concatenate([[0.0], np.full(sizes, np.inf)])  # by how many sizes are served
    starts: list[Any] = []
    for _ in range(count):
        after, chosen = np.full(sizes + 1, np.inf), np.zeros(sizes + 1, dtype=np.int64)
        for end in range(sizes):
            sums = times[end] * (inverse[end + 1] - inverse[: end + 1]) - (end + 1 - np.arange(end + 1))
            costs = np.where(_regrets(times, end) <= limit, best[: end + 1] + sums, np.inf)
            chosen[end + 1] = int(costs.argmin())
            after[end + 1] = costs[chosen[end + 1]]
        best = after
        starts.append(chosen)
    ends, at = [], sizes
    for chosen in reversed(starts):
        ends.append(at - 1)
        at = int(chosen[at])
    return ends[::-1]
