"""Decisions from latencies measured side by side and in fresh processes."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tunefarm_schemas.bad_input import REFERENCE_IN_DOUBT, BadInput
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.measurement import Exported, Failed, Result, Timing
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.tuning.trace import Trace

DISTURBED = 1.05
"""Ratio of fresh-process to side-by-side latency that indicates other load during the fresh processes."""
SCATTERED = 1.10
"""Maximum ratio of the slowest to the fastest process, without the two extremes, and of their median to the best
latency of the search. Beyond it, the latency of the next process is not predictable."""
UNTUNED = Trace(text="[[],[]]")
"""The schedule that changes nothing; it ships if tuning finds nothing faster."""
_CLEARLY_FASTER = 3.0
"""Minimum ratio of the untuned function's fastest sample to a schedule's slowest that needs no further comparison."""
_CLEARLY_FASTER_THAN_ESTIMATE = 1.5
"""The same for an estimate, which does not vary with host load and memory placement."""
_MIN_WIN_SHARE = 2 / 3
"""Share of the processes in which a schedule must be the faster one."""
_INCONCLUSIVE = frozenset(
    {
        FailureReason.BUILD_TIMEOUT,
        FailureReason.RUN_TIMEOUT,
        FailureReason.OUT_OF_MEMORY,
        FailureReason.DEVICE_LOST,
        FailureReason.CANCELED,
    }
)
"""Failures in a comparison that do not prove a schedule wrong."""


@dataclass(frozen=True)
class Ranking:
    """Schedules with their side-by-side latencies in seconds, fastest first, and the failures of the others."""

    timed: list[tuple[float, Trace]]
    failures: dict[Trace, TrialFailure]
    timings: dict[Trace, Timing]

    @property
    def first_failure(self) -> TrialFailure | None:
        """The failure of the first schedule without a latency."""
        return next(iter(self.failures.values()), None)

    def may_lose_to_untuned(self, trace: Trace) -> bool:
        """Whether the comparison leaves open that the untuned function is as fast as the schedule."""
        own, untuned = self.timings.get(trace), self.timings.get(UNTUNED)
        if trace == UNTUNED or own is None or untuned is None:
            return False
        factor = _CLEARLY_FASTER_THAN_ESTIMATE if untuned.is_estimate else _CLEARLY_FASTER
        slowest_s, fastest_s = max(own.samples_s, default=own.latency_s), min(untuned.samples_s, default=0.0)
        return factor * slowest_s >= fastest_s


def require_right_untuned(untuned: Result) -> None:
    """Raise ``BadInput`` if the untuned function has a wrong result: no comparison with its reference is then valid."""
    if isinstance(untuned, Failed) and untuned.failure.reason is FailureReason.WRONG_RESULT:
        message = untuned.failure.message
        raise BadInput(
            REFERENCE_IN_DOUBT,
            f"the untuned function itself has wrong results, so its reference cannot be trusted: {message}",
            "Nothing was recorded or retracted. Check the host and the device, then tune again, or on another device.",
        )


def stands(standing: TuningRecord, ranking: Ranking) -> bool:
    """Whether the standing record is the fastest side by side; if it has no result there, by its earlier latency."""
    fastest_s, fastest = ranking.timed[0]
    failure = ranking.failures.get(standing.trace)
    has_no_result = failure is not None and failure.reason in _INCONCLUSIVE
    return fastest == standing.trace or (has_no_result and standing.latency_s <= fastest_s)


def beats_untuned(exported: Exported) -> bool:
    """Whether the schedule is faster than the untuned function, which was timed in the same processes.

    Each process yields a pair, because load disturbs both alike. Chance decides a few pairs of equally fast functions,
    so the schedule must also win ``_MIN_WIN_SHARE`` of the pairs.
    """
    pairs = list(zip(exported.process_latencies_s, exported.untuned_latencies_s, strict=False))
    wins = sum(own_s < untuned_s for own_s, untuned_s in pairs)
    own_s, untuned_s = (statistics.median(side) for side in zip(*pairs, strict=True))
    return own_s < untuned_s and wins > _MIN_WIN_SHARE * len(pairs)


def is_disproved(standing: TuningRecord, ranking: Ranking) -> bool:
    """Whether the standing record's schedule failed side by side in a way that proves it wrong."""
    failure = ranking.failures.get(standing.trace)
    return failure is not None and failure.reason not in _INCONCLUSIVE


def fault_of(standing: TuningRecord, record: TuningRecord, ranking: Ranking) -> str | None:
    """Why ``record`` refutes ``standing``; None if ``standing`` is recorded as slower, or failed inconclusively."""
    failure = ranking.failures.get(standing.trace)
    if failure is not None and is_disproved(standing, ranking):
        return f"failed when it was timed beside record {record.record_id}: {failure.reason.value}: {failure.message}"
    if standing.is_doubtful:
        return f"taken while the host was busy; timed again as record {record.record_id}"
    if standing.trace == record.trace and (standing.processes or 0) < (record.processes or 0):
        return f"timed in {standing.processes} fresh processes only; timed again as record {record.record_id}"
    if failure is not None or standing.latency_s > record.latency_s:
        return None
    return f"slower than record {record.record_id} when both were timed side by side"


def beside_untuned(ranking: Ranking) -> str:
    """The limits of the comparison with the untuned function, for a record's status."""
    failure, timing = ranking.failures.get(UNTUNED), ranking.timings.get(UNTUNED)
    if timing is not None and timing.is_estimate:
        return "; the untuned function's time is an estimate, and it was compared at samples of its output"
    return "" if failure is None else f"; the untuned function could not be timed beside it ({failure.reason.value})"


def merged(exported: Exported, more: Exported) -> Exported:
    """Two exports of the same schedule as one, with the processes of both."""
    own, other = len(exported.process_latencies_s), len(more.process_latencies_s)
    return exported.model_copy(
        update={
            "process_latencies_s": exported.process_latencies_s + more.process_latencies_s,
            "untuned_latencies_s": exported.untuned_latencies_s + more.untuned_latencies_s,
            "foreign_load": (own * exported.foreign_load + other * more.foreign_load) / (own + other),
        }
    )


def leaves_doubt(latencies_s: Sequence[float], compared_s: float, best_s: float) -> bool:
    """Whether the processes are slower than side by side, or than the schedule's best latency, or scattered."""
    median_s = statistics.median(latencies_s)
    return median_s > DISTURBED * compared_s or median_s > SCATTERED * best_s or is_scattered(latencies_s)


def is_scattered(latencies_s: Sequence[float]) -> bool:
    """Whether the latencies vary by more than ``SCATTERED``, without the fastest and the slowest."""
    inner_s = sorted(latencies_s)[1:-1] or latencies_s
    return max(inner_s) > SCATTERED * min(inner_s)
