"""What verifying came to, and what the store already answers for an exploration."""

from dataclasses import dataclass

from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.tuning.record import MatchKind, RecordKey, TuningRecord
from tunefarm_services.store.store import Store
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.verify.stored_library import usable_artifact

FINALISTS, MAX_FINALISTS = 3, 6
CLOSE = 1.06
"""Within so many times the fastest, which of them is the fastest shows only side by side."""
SLOW_S = 0.05
"""Of kernels that take longer, a moment changes little: others than the close ones would be called for nothing."""
COMPARE_S = 0.1
"""Seconds of timing for each schedule that is compared."""
PROCESSES, MORE_PROCESSES = 7, 8
STILL_BUSY = "The record was taken while the host was busy, as it is now: the next job times it again."
TIMED_ANEW = "The record was taken while the host was busy, and was timed anew."
REFUSAL_S = 1.0
"""A farm cancels what it had been asked about a function just before it says what is wrong with it."""


@dataclass(frozen=True)
class Finished:
    """What the end of an exploration left behind, or why it left nothing."""

    record: TuningRecord | None
    artifact_id: str | None
    failure: TrialFailure | None = None
    note: str = ""
    """What a person is told of it."""
    is_new: bool = False
    """Whether the record was written just now."""

    @property
    def is_doubtful(self) -> bool:
        """Whether the record has to be timed anew before it is an answer."""
        return self.record is not None and self.record.is_doubtful

    @property
    def may_fare_better(self) -> bool:
        """Whether nothing was verified for a reason that may be gone later."""
        return self.failure is not None and self.failure.may_be_tried_again


def standing_record(store: Store, run: ExplorationRun) -> TuningRecord | None:
    """The best verified record for exactly the key of ``run``, if there is one."""
    return exact_record(store, run.exploration.key.tenant, run.record_key)


def exact_record(store: Store, tenant: str, key: RecordKey) -> TuningRecord | None:
    """The best verified record for exactly this key, if there is one."""
    for match in store.best_records.matches(tenant, key):
        if match.match is MatchKind.EXACT:
            return match.record
    return None


def stored_answer(store: Store, run: ExplorationRun) -> Finished | None:
    """The standing record and its artifact, where there are both; ``run`` learns what the untuned function took.

    An artifact whose library is damaged, gone or refused is none.
    """
    record = standing_record(store, run)
    artifact = None if record is None else usable_artifact(store, record, run.target, run.callees)
    if record is None or artifact is None:
        return None
    run.untuned_latency_s, run.untuned_is_estimate = record.untuned_latency_s, record.untuned_is_estimate
    return Finished(record, artifact.artifact_id)
