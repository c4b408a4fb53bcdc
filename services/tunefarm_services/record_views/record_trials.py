"""The fastest trials of the search that a record came from, against the record's interval."""

from typing import Final

from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.views.record import RecordTrial, RecordTrials
from tunefarm_services.store.trials.point_repository import PointRepository
from tunefarm_services.store.trials.trial_repository import TrialRepository

FASTEST: Final = 10


def fastest_trials(points: PointRepository, trials: TrialRepository, record: TuningRecord) -> RecordTrials:
    """At most ``FASTEST`` trials; none of a record without a search here, such as an imported one."""
    found: tuple[tuple[int, float], ...] = ()
    if record.exploration_id is not None:
        found = points.fastest(record.tenant, record.exploration_id, FASTEST)
    own = _own_trial(trials, record, [number for number, _ in found])
    slowest_s = 0.0 if record.interval_s is None else record.interval_s[1]
    return RecordTrials(
        record_id=record.record_id,
        latency_s=record.latency_s,
        interval_s=record.interval_s,
        trials=tuple(
            RecordTrial(
                number=number,
                latency_s=latency_s,
                is_within_noise=latency_s <= slowest_s,
                is_own=number == own,
            )
            for number, latency_s in found
        ),
    )


def _own_trial(trials: TrialRepository, record: TuningRecord, numbers: list[int]) -> int | None:
    """The number of the trial whose schedule the record has, if it is one of these."""
    for number in numbers:
        found = trials.page(record.tenant, record.exploration_id or "", after=number - 1, limit=1)
        if found and found[0].candidate.number == number and found[0].candidate.trace.text == record.trace.text:
            return number
    return None
