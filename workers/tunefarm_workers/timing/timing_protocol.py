"""The policy of taking time: how often a kernel is called until enough is known about it."""

from statistics import median

from tunefarm_schemas.tuning.measurement import Stopped, Timing
from tunefarm_workers.timing.calm_samples import PROBE_S, SecondsPerCall, calls_for, calm_samples

_LOST = 1.6
"""Slower than the incumbent by this once it is warm: no repeat will bring it back."""
_WARM_CALLS = 10
"""The first calls after other work take up to six times as long: caches are cold and threads asleep."""
_ENOUGH_CALLS, _ENOUGH_WARMING_S = 4, 0.003
"""Of a slower kernel fewer calls show what it takes when it is warm."""
_MIN_CALLS, _MAX_WARMING_S = 2, 0.03
_BEHIND = 1.15
"""Slower by this in every one of a few short samples."""
_NOT_AHEAD = 1.05
"""Slower by this in every one of some more samples."""


# 1. Single calls until the kernel is warm, or as fast as the incumbent. One that is far slower is lost.
# 2. A few short samples of the others: whoever is behind in each of them is lost, a close one after some more of them.
# 3. The whole protocol for what may be an improvement.
# Only the least of several times speaks against a kernel: whatever disturbs a call makes it longer, never shorter.
def take_time(seconds_per_call: SecondsPerCall, incumbent_s: float | None) -> Timing | Stopped:
    """Time a kernel that was called at least once before.

    A kernel that is clearly slower than ``incumbent_s`` is let go early with a lower bound of its latency; without an
    incumbent nothing is. All others get at least nine samples of a millisecond each, or fewer calls if they are slow.
    """
    if incumbent_s is None:
        return full_timing(seconds_per_call, seconds_per_call(1))
    warm_s = _warm(seconds_per_call, incumbent_s)
    if warm_s > _LOST * incumbent_s:
        return Stopped(at_least_s=warm_s)
    return _probe(seconds_per_call, warm_s, incumbent_s) or full_timing(seconds_per_call, warm_s)


def _warm(seconds_per_call: SecondsPerCall, incumbent_s: float) -> float:
    """The least of so many single calls that a kernel is warm, or of as many as show that it is not lost."""
    least_s, spent_s = float("inf"), 0.0
    for calls in range(1, _WARM_CALLS + 1):
        call_s = seconds_per_call(1)
        least_s, spent_s = min(least_s, call_s), spent_s + call_s
        is_warm = (calls >= _ENOUGH_CALLS and spent_s > _ENOUGH_WARMING_S) or (
            calls >= _MIN_CALLS and spent_s > _MAX_WARMING_S
        )
        if is_warm or least_s <= incumbent_s:
            break
    return least_s


def _probe(seconds_per_call: SecondsPerCall, first_s: float, incumbent_s: float) -> Stopped | None:
    calls = calls_for(PROBE_S, first_s)
    least_s = min(seconds_per_call(calls) for _ in range(3))
    if least_s > _BEHIND * incumbent_s:
        return Stopped(at_least_s=least_s)
    if least_s > _NOT_AHEAD * incumbent_s:
        least_s = min(least_s, *(seconds_per_call(calls) for _ in range(2)))
        if least_s > _NOT_AHEAD * incumbent_s:
            return Stopped(at_least_s=least_s)
    return None


def full_timing(seconds_per_call: SecondsPerCall, estimate_s: float) -> Timing:
    """The whole protocol for a kernel that takes about ``estimate_s`` a call."""
    samples_s = tuple(calm_samples(seconds_per_call, estimate_s))
    return Timing(latency_s=median(samples_s), samples_s=samples_s)
