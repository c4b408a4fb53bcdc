"""The timing protocol: how often a kernel is called until enough is known about it."""

from statistics import median

from tunefarm_schemas.tuning.measurement import Stopped, Timing
from tunefarm_workers.timing.calm_samples import PROBE_S, SecondsPerCall, calls_for, calm_samples

_LOST_RATIO = 1.6
"""A warm kernel slower than the incumbent by this is not repeated."""
_WARM_CALLS = 10
"""First calls take up to six times as long, because caches are cold and threads asleep."""
_ENOUGH_CALLS, _ENOUGH_WARMING_S = 4, 0.003
"""A slower kernel is warm after fewer calls."""
_MIN_CALLS, _MAX_WARMING_S = 2, 0.03
_BEHIND_RATIO = 1.15
"""Slower by this in each of three short samples."""
_NOT_AHEAD_RATIO = 1.05
"""Slower by this in each of five short samples."""


# 1. Make single calls until the kernel is warm, or as fast as the incumbent. Stop if it is far slower.
# 2. Take a few short samples. Stop if all are slower than the incumbent; take more of them if it is close.
# 3. Run the full protocol for a possible improvement.
# Steps 1 and 2 compare the fastest of several times, because disturbances make calls longer, never shorter: a lower
# bound that excludes the kernel holds on a noisy host as well.
def take_time(seconds_per_call: SecondsPerCall, incumbent_s: float | None) -> Timing | Stopped:
    """Time a kernel that was called at least once before.

    A kernel that is clearly slower than ``incumbent_s`` is stopped early with a lower bound of its latency. All others
    get the full protocol of ``calm_samples``.
    """
    if incumbent_s is None:
        return full_timing(seconds_per_call, seconds_per_call(1))
    warm_s = _warm(seconds_per_call, incumbent_s)
    if warm_s > _LOST_RATIO * incumbent_s:
        return Stopped(at_least_s=warm_s)
    return _probe(seconds_per_call, warm_s, incumbent_s) or full_timing(seconds_per_call, warm_s)


def _warm(seconds_per_call: SecondsPerCall, incumbent_s: float) -> float:
    """Return the fastest of the single calls until the kernel is warm or as fast as the incumbent."""
    fastest_s, spent_s = float("inf"), 0.0
    for calls in range(1, _WARM_CALLS + 1):
        call_s = seconds_per_call(1)
        fastest_s, spent_s = min(fastest_s, call_s), spent_s + call_s
        is_warm = (calls >= _ENOUGH_CALLS and spent_s > _ENOUGH_WARMING_S) or (
            calls >= _MIN_CALLS and spent_s > _MAX_WARMING_S
        )
        if is_warm or fastest_s <= incumbent_s:
            break
    return fastest_s


def _probe(seconds_per_call: SecondsPerCall, first_s: float, incumbent_s: float) -> Stopped | None:
    calls = calls_for(PROBE_S, first_s)
    fastest_s = min(seconds_per_call(calls) for _ in range(3))
    if fastest_s > _BEHIND_RATIO * incumbent_s:
        return Stopped(at_least_s=fastest_s)
    if fastest_s > _NOT_AHEAD_RATIO * incumbent_s:
        fastest_s = min(fastest_s, *(seconds_per_call(calls) for _ in range(2)))
        if fastest_s > _NOT_AHEAD_RATIO * incumbent_s:
            return Stopped(at_least_s=fastest_s)
    return None


def full_timing(seconds_per_call: SecondsPerCall, estimate_s: float) -> Timing:
    """Run the full protocol for a kernel that takes about ``estimate_s`` per call."""
    samples_s = tuple(calm_samples(seconds_per_call, estimate_s))
    return Timing(latency_s=median(samples_s), samples_s=samples_s)
