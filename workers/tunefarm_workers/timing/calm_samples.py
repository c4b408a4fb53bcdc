"""Samples of a kernel that nobody disturbed. Plain Python, for processes that have to start fast."""

from collections.abc import Callable, Sequence
from math import ceil

SecondsPerCall = Callable[[int], float]
"""Mean seconds of that many calls in a row."""

PROBE_S = 0.0005
_SAMPLE_S = 0.001
_SAMPLES = 9
_ENOUGH_S = 0.015
_BUDGET_S = 0.040
_MIN_SAMPLES = 3
_MAX_CALLS = 20_000
_CALM = 1.15
"""How far the median of undisturbed samples lies above the least of them."""
_MORE_ROUNDS = 2
_SLOW_S = 0.5
"""Samples that take so long together are not taken anew: of what lasts a moment, they hold the better part."""


def calm_samples(seconds_per_call: SecondsPerCall, estimate_s: float) -> Sequence[float]:
    """All samples that the whole protocol takes of a kernel that takes about ``estimate_s`` a call.

    At least nine of a millisecond each, or fewer calls if they are slow. Samples that scatter were disturbed by
    somebody else on the host. Then they are taken anew, at most twice and not of a slow kernel, and the calmest ones
    count.
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
    """Whether samples lie so close together that nobody else on the host disturbed most of them."""
    return len(samples_s) > 0 and middle(samples_s) <= _CALM * min(samples_s)


def middle(samples_s: Sequence[float]) -> float:
    """The median, without what ``statistics`` would import."""
    ordered = sorted(samples_s)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def calls_for(duration_s: float, latency_s: float) -> int:
    """How many calls of about ``latency_s`` take ``duration_s``; at least one."""
    return min(max(ceil(duration_s / max(latency_s, 1e-9)), 1), _MAX_CALLS)


def _samples(seconds_per_call: SecondsPerCall, calls: int) -> list[float]:
    samples_s: list[float] = []
    spent_s = 0.0
    while len(samples_s) < _MIN_SAMPLES or (spent_s < _BUDGET_S and (len(samples_s) < _SAMPLES or spent_s < _ENOUGH_S)):
        samples_s.append(seconds_per_call(calls))
        spent_s += calls * samples_s[-1]
    return samples_s
