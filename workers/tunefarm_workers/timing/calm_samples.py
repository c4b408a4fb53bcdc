"""Samples of a kernel without disturbances. Plain Python, for processes that must start fast."""

from collections.abc import Callable, Sequence
from math import ceil

SecondsPerCall = Callable[[int], float]
"""Returns the mean seconds of that many consecutive calls."""

PROBE_S = 0.0005
_SAMPLE_S = 0.001
_SAMPLES = 9
_MIN_SPENT_S = 0.015
_BUDGET_S = 0.040
_MIN_SAMPLES = 3
_MAX_CALLS = 20_000
_CALM_RATIO = 1.15
"""Maximum ratio of the median to the minimum of undisturbed samples."""
_MORE_ROUNDS = 2
_SLOW_S = 0.5
"""Samples that take longer together are not repeated: they outlast a short disturbance."""


def calm_samples(seconds_per_call: SecondsPerCall, estimate_s: float) -> Sequence[float]:
    """Take all samples of the full protocol of a kernel that takes about ``estimate_s`` per call.

    At least nine samples of a millisecond each, fewer of a slow kernel. Samples that scatter were disturbed by other
    load; they are repeated, at most twice and not for a slow kernel, and the round with the lowest median counts.
    """
    estimate_s = min(estimate_s, seconds_per_call(calls_for(PROBE_S, estimate_s)))
    calls = calls_for(_SAMPLE_S, estimate_s)
    best = _samples(seconds_per_call, calls)
    for _ in range(_MORE_ROUNDS):
        if is_calm(best) or calls * sum(best) > _SLOW_S:
            break
        best = min(best, _samples(seconds_per_call, calls), key=middle)
    return best


def is_calm(samples_s: Sequence[float]) -> bool:
    """Whether samples scatter so little that most were undisturbed."""
    return len(samples_s) > 0 and middle(samples_s) <= _CALM_RATIO * min(samples_s)


def middle(samples_s: Sequence[float]) -> float:
    """Return the median, without the imports of ``statistics``."""
    ordered = sorted(samples_s)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def calls_for(duration_s: float, latency_s: float) -> int:
    """Return how many calls of about ``latency_s`` take ``duration_s``; at least one."""
    return min(max(ceil(duration_s / max(latency_s, 1e-9)), 1), _MAX_CALLS)


def _samples(seconds_per_call: SecondsPerCall, calls: int) -> list[float]:
    samples_s: list[float] = []
    spent_s = 0.0
    while len(samples_s) < _MIN_SAMPLES or (
        spent_s < _BUDGET_S and (len(samples_s) < _SAMPLES or spent_s < _MIN_SPENT_S)
    ):
        samples_s.append(seconds_per_call(calls))
        spent_s += calls * samples_s[-1]
    return samples_s
