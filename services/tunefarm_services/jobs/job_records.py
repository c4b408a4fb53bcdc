"""The records that a job's tasks have."""

from tunefarm_schemas.tuning.record import MatchKind, RecordKey, TuningRecord
from tunefarm_services.store import Store


def records_of_job(store: Store, tenant: str, job_id: str) -> list[TuningRecord]:
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
