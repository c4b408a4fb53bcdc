"""The records that a job's tasks have."""

from typing import Protocol

from tunefarm_schemas.tuning.record import MatchKind, RecordKey, TuningRecord
from tunefarm_services.store.jobs.job_repository import JobRepository
from tunefarm_services.store.records.best_record_repository import BestRecordRepository
from tunefarm_services.store.trials.exploration_repository import ExplorationRepository


class ResultsOfJobs(Protocol):
    """What the store keeps of jobs and their results."""

    @property
    def jobs(self) -> JobRepository:
        """The jobs."""
        ...

    @property
    def explorations(self) -> ExplorationRepository:
        """The explorations."""
        ...

    @property
    def best_records(self) -> BestRecordRepository:
        """The best records for a key."""
        ...


def records_of_job(store: ResultsOfJobs, tenant: str, job_id: str) -> list[TuningRecord]:
    """The best verified record of each exploration of a job, if there is one. Raises NotFound."""
    store.jobs.get(tenant, job_id)
    explorations = store.explorations.of_job(tenant, job_id)
    found: dict[str, TuningRecord] = {}
    for exploration in sorted(explorations, key=lambda each: each.exploration_id):
        key = RecordKey(**{name: getattr(exploration.key, name) for name in RecordKey.model_fields})
        for match in store.best_records.matches(tenant, key, limit=1):
            if match.match is MatchKind.EXACT:
                found[match.record.record_id] = match.record
    return list(found.values())
