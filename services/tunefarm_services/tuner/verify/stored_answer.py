"""The result of verifying an exploration, and the answer that the store already has for it."""

from dataclasses import dataclass

from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.tuning.record import MatchKind, RecordKey, TuningRecord
from tunefarm_services.store.records.artifact_repository import ArtifactRepository
from tunefarm_services.store.records.best_record_repository import BestRecordRepository
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.verify.care import Care
from tunefarm_services.tuner.verify.stored_library import usable_artifact


@dataclass(frozen=True)
class Finished:
    """The record and artifact of an exploration, or why there is none."""

    record: TuningRecord | None
    artifact_id: str | None
    failure: TrialFailure | None = None
    note: str = ""
    """Text for the job's message."""
    is_new: bool = False
    """Whether this run wrote the record."""

    def is_answer(self, care: Care) -> bool:
        """Whether no record must be timed again before this is an answer."""
        return self.record is None or care.accepts(self.record)

    @property
    def is_retryable(self) -> bool:
        """Whether verification failed for a reason that may be temporary."""
        return self.failure is not None and self.failure.may_be_tried_again


def standing_record(best_records: BestRecordRepository, run: ExplorationRun) -> TuningRecord | None:
    """The best verified record for the key of ``run``; None if there is none."""
    return exact_record(best_records, run.exploration.key.tenant, run.record_key)


def exact_record(best_records: BestRecordRepository, tenant: str, key: RecordKey) -> TuningRecord | None:
    """The best verified record for ``key``; None if there is none."""
    for match in best_records.matches(tenant, key):
        if match.match is MatchKind.EXACT:
            return match.record
    return None


def stored_answer(
    best_records: BestRecordRepository, artifacts: ArtifactRepository, run: ExplorationRun
) -> Finished | None:
    """The standing record and its usable artifact, if both exist. Copies the untuned latency to ``run``."""
    record = standing_record(best_records, run)
    artifact = None if record is None else usable_artifact(artifacts, record, run.target, run.callees)
    if record is None or artifact is None:
        return None
    run.untuned_latency_s, run.untuned_is_estimate = record.untuned_latency_s, record.untuned_is_estimate
    return Finished(record, artifact.artifact_id)
