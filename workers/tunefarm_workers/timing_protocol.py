"""The policy of taking time: how often a kernel is called until enough is known about it."""

from collections.abc import Callable, Sequence
from math import ceil
from statistics import median

from tunefarm_schemas.measurement import Stopped, Timing

SecondsPerCall = Callable[[int], float]
"""Mean seconds of that many calls in a row."""

_LOST = 1.6
"""Slower than the incumbent by this after two calls: no repeat will bring it back."""
_BEHIND = 1.15
"""Slower by this in every one of a few short samples."""
_NOT_AHEAD = 1.05
"""Slower by this in every one of some more samples."""
_PROBE_S = 0.0005
_SAMPLE_S = 0.001
_SAMPLES = 9
_ENOUGH_S = 0.015
_BUDGET_S = 0.040
_LEAST_SAMPLES = 3
_MOST_CALLS = 20_000
_CALM = 1.15
"""How far the median of undisturbed samples lies above the least of them."""
_MORE_ROUNDS = 2


def take_time(seconds_per_call: SecondsPerCall, incumbent_s: float | None) -> Timing | Stopped:
    """Time a kernel that was called at least once before.

    A kernel that is clearly slower than ``incumbent_s`` is let go early with a lower bound of its latency; without an
    incumbent nothing is. All others get at least nine samples of a millisecond each, or fewer calls if they are slow.
    """
    first_s = seconds_per_call(1)
    if incumbent_s is not None:
        if first_s > _LOST * incumbent_s:
            first_s = min(first_s, seconds_per_call(1))
        if first_s > _LOST * incumbent_s:
            return Stopped(at_least_s=first_s)
        stopped = _probe(seconds_per_call, first_s, incumbent_s)
        if stopped is not None:
            return stopped
    return full_timing(seconds_per_call, first_s)


def _probe(seconds_per_call: SecondsPerCall, first_s: float, incumbent_s: float) -> Stopped | None:
    calls = _calls_for(_PROBE_S, first_s)
    least_s = min(seconds_per_call(calls) for _ in range(3))
    if least_s > _BEHIND * incumbent_s:
        return Stopped(at_least_s=least_s)
    if least_s > _NOT_AHEAD * incumbent_s:
        least_s = min(least_s, *(seconds_per_call(calls) for _ in range(2)))
        if least_s > _NOT_AHEAD * incumbent_s:
            return Stopped(at_least_s=least_s)
    return None


def full_timing(seconds_per_call: SecondsPerCall, estimate_s: float) -> Timing:
    """The whole protocol for a kernel that takes about ``estimate_s`` a call.

    Samples that scatter were disturbed by somebody else on the host. Then they are taken anew, at most twice, and the
    calmest ones count.
    """
    estimate_s = min(estimate_s, seconds_per_call(_calls_for(_PROBE_S, estimate_s)))
    calls = _calls_for(_SAMPLE_S, estimate_s)
    best = _samples(seconds_per_call, calls)
    for _ in range(_MORE_ROUNDS):
        if is_calm(best):
            break
        best = min(best, _samples(seconds_per_call, calls), key=median)
    return Timing(latency_s=median(best), samples_s=tuple(best))


def is_calm(samples_s: Sequence[float]) -> bool:
    """Whether samples lie so close together that nobody else on the host disturbed most of them."""
    return len(samples_s) > 0 and median(samples_s) <= _CALM * min(samples_s)


def _samples(seconds_per_call: SecondsPerCall, calls: int) -> list[float]:
    samples_s: list[float] = []
    spent_s = 0.0
    while len(samples_s) < _LEAST_SAMPLES or (
        spent_s < _BUDGET_S and (len(samples_s) < _SAMPLES or spent_s < _ENOUGH_S)
    ):
        samples_s.append(seconds_per_call(calls))
        spent_s += calls * samples_s[-1]
    return samples_s


def _calls_for(duration_s: float, latency_s: float) -> int:
    return min(max(ceil(duration_s / max(latency_s, 1e-9)), 1), _MOST_CALLS)
