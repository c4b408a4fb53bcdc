"""Steps of verification, with their texts and estimated durations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.tuner.search.exploration_run import ExplorationRun

_LONG_S: Final = 1.0
"""An untuned function that takes longer is run in part only."""
_ESTIMATE_S: Final = 4.0
"""Time to compute samples of such a function's output, and to estimate its latency."""
_START_S, _PROCESS_S = 0.6, 0.15
"""Overhead before the first fresh process, and of each process."""
_CALLS_SIDE_BY_SIDE, _CALLS_IN_A_PROCESS = 12, 25
_MIN_CALLS_S: Final = 0.1
_UNKNOWN_BUILD_S: Final = 1.0


@dataclass(frozen=True)
class VerifyingStep:
    """One step of verification, and the estimated seconds for it and all later steps."""

    text: str
    seconds: float


OnStep = Callable[[VerifyingStep], None]


def comparison_step(run: ExplorationRun, finalists: Sequence[Trace], processes: int) -> VerifyingStep:
    """The step that checks schedules and times them side by side."""
    builds_s = sum(run.build_s_of(trace) or _UNKNOWN_BUILD_S for trace in finalists)
    calls_s = sum(_calls_s(run, trace, _CALLS_SIDE_BY_SIDE) for trace in finalists)
    untuned_s = run.comparable_untuned_s or 0.0
    untuned_s = _ESTIMATE_S if untuned_s >= _LONG_S else _CALLS_SIDE_BY_SIDE * untuned_s
    text = f"checks {len(finalists)} schedules and the untuned function on three inputs, and times them side by side"
    own_s = builds_s + calls_s + untuned_s
    return VerifyingStep(text, own_s + export_step(run, run.best_latency_s, processes).seconds)


def export_step(run: ExplorationRun, latency_s: float | None, processes: int, what: str = "") -> VerifyingStep:
    """The step that compiles a library, checks it, and times it in fresh processes."""
    each_s = _PROCESS_S + max(_CALLS_IN_A_PROCESS * (latency_s or 0.0), _MIN_CALLS_S)
    text = f"compiles {what or 'the fastest schedule'} and times it in {processes} fresh processes"
    return VerifyingStep(text, (run.typical_build_s or _UNKNOWN_BUILD_S) + _START_S + processes * each_s)


def _calls_s(run: ExplorationRun, trace: Trace, calls: int) -> float:
    return max(calls * min(run.latencies_of(trace), default=run.best_latency_s or 0.0), _MIN_CALLS_S)
