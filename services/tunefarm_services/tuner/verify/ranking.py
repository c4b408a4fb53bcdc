"""What schedules took side by side and in fresh processes, and what follows from it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tunefarm_schemas.bad_input import REFERENCE_IN_DOUBT, BadInput
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.measurement import Exported, Failed, Result, Timing
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.tuning.trace import Trace

DISTURBED = 1.05
"""So many times what it took side by side: then something else ran beside the fresh processes."""
SCATTERED = 1.10
"""So far apart, but for the fastest and the slowest, or from the best time of the search, fresh processes say little
about the next one."""
UNTUNED = Trace(text="[[],[]]")
"""The schedule that changes nothing; what ships when tuning found nothing faster."""
_OUT_OF_REACH = 3.0
"""Where the slowest sample of a schedule is so many times below the fastest of another one, that cannot be as fast."""
_OUT_OF_REACH_OF_AN_ESTIMATE = 1.5
"""The same beside an estimate, which no moment and no place of memory made better or worse."""
_MOSTLY = 2 / 3
"""Of the processes in which a schedule has to be the faster one."""
_SAYS_NOTHING = frozenset(
    {
        FailureReason.BUILD_TIMEOUT,
        FailureReason.RUN_TIMEOUT,
        FailureReason.OUT_OF_MEMORY,
        FailureReason.DEVICE_LOST,
        FailureReason.CANCELED,
    }
)
"""Why a schedule may have no time beside others although it works."""


@dataclass(frozen=True)
class Ranking:
    """Schedules by what they took side by side, in seconds, the fastest first; and why others took nothing."""

    timed: list[tuple[float, Trace]]
    failures: dict[Trace, TrialFailure]
    timings: dict[Trace, Timing]

    @property
    def first_failure(self) -> TrialFailure | None:
        """Why the first schedule that was asked for took nothing."""
        return next(iter(self.failures.values()), None)

    def may_lose_to_untuned(self, trace: Trace) -> bool:
        """Whether the untuned function may be as fast as a schedule on another day."""
        own, untuned = self.timings.get(trace), self.timings.get(UNTUNED)
        if trace == UNTUNED or own is None or untuned is None:
            return False
        factor = _OUT_OF_REACH_OF_AN_ESTIMATE if untuned.is_estimate else _OUT_OF_REACH
        slowest_s, fastest_s = max(own.samples_s, default=own.latency_s), min(untuned.samples_s, default=0.0)
        return factor * slowest_s >= fastest_s


def require_right_untuned(untuned: Result) -> None:
    """Raise ``BadInput`` where the untuned function was found wrong: then nothing that was compared says anything."""
    if isinstance(untuned, Failed) and untuned.failure.reason is FailureReason.WRONG_RESULT:
        said = untuned.failure.message
        raise BadInput(
            REFERENCE_IN_DOUBT,
            f"the untuned function itself was found wrong, so its reference cannot be trusted: {said}",
            "Nothing was recorded or retracted. Check the host and the device, then tune again, or on another device.",
        )


def stands(standing: TuningRecord, ranking: Ranking) -> bool:
    """Whether it won side by side; where it could not be timed there, whether none took less than it did before."""
    fastest_s, fastest = ranking.timed[0]
    failure = ranking.failures.get(standing.trace)
    could_not_be_timed = failure is not None and failure.reason in _SAYS_NOTHING
    return fastest == standing.trace or (could_not_be_timed and standing.latency_s <= fastest_s)


def beats_untuned(exported: Exported) -> bool:
    """Whether the schedule is faster than the untuned function, which was timed in the same processes.

    Each process is a pair, for what disturbs one disturbs the other; and a few pairs of two that take the same are
    decided by chance, so that most have to agree.
    """
    pairs = list(zip(exported.process_latencies_s, exported.untuned_latencies_s, strict=False))
    wins = sum(own_s < untuned_s for own_s, untuned_s in pairs)
    own_s, untuned_s = (statistics.median(side) for side in zip(*pairs, strict=True))
    return own_s < untuned_s and wins > _MOSTLY * len(pairs)


def fault_of(standing: TuningRecord, record: TuningRecord, ranking: Ranking) -> str | None:
    """Why ``standing`` gives way to ``record``; None where it is slower on record anyway, or nothing is known of it."""
    failure = ranking.failures.get(standing.trace)
    if standing.is_doubtful:
        return f"taken while the host was busy; timed anew as record {record.record_id}"
    if failure is None:
        slower = f"slower than record {record.record_id} when both were timed side by side"
        return slower if standing.latency_s <= record.latency_s else None
    if failure.reason in _SAYS_NOTHING:
        return None
    return f"failed when it was timed beside record {record.record_id}: {failure.reason.value}: {failure.message}"


def beside_untuned(ranking: Ranking) -> str:
    """What the comparison could not say."""
    failure, timing = ranking.failures.get(UNTUNED), ranking.timings.get(UNTUNED)
    if timing is not None and timing.is_estimate:
        return "; the untuned function's time is an estimate, and it was compared at samples of its output"
    return "" if failure is None else f"; the untuned function could not be timed beside it ({failure.reason.value})"


def both(exported: Exported, more: Exported) -> Exported:
    """One export of all processes of two of the same schedule."""
    own, other = len(exported.process_latencies_s), len(more.process_latencies_s)
    return exported.model_copy(
        update={
            "process_latencies_s": exported.process_latencies_s + more.process_latencies_s,
            "untuned_latencies_s": exported.untuned_latencies_s + more.untuned_latencies_s,
            "foreign_load": (own * exported.foreign_load + other * more.foreign_load) / (own + other),
        }
    )


def leaves_doubt(latencies_s: Sequence[float], compared_s: float, least_s: float) -> bool:
    """Whether they are slower than side by side, or than the schedule ever was, or far apart."""
    median_s = statistics.median(latencies_s)
    return median_s > DISTURBED * compared_s or median_s > SCATTERED * least_s or is_scattered(latencies_s)


def is_scattered(latencies_s: Sequence[float]) -> bool:
    """Whether all but the fastest and the slowest are far apart."""
    inner_s = sorted(latencies_s)[1:-1] or latencies_s
    return max(inner_s) > SCATTERED * min(inner_s)
