"""The contract of all stores for retention: old data is deleted unless other data refers to it."""

from sqlalchemy import text

from tests.contract.store.test_store_farm import lane
from tests.store.sample import TENANT, Bench, bench, put_job, record, timing
from tunefarm_schemas.farm.lane import LaneState
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_schemas.tuning.measurement import Purpose
from tunefarm_services.store import TENANT_STREAM, RetentionPolicy, RetentionReport, Store

OLD = "2020-01-01T00:00:00.000001+00:00"
A_DAY = RetentionPolicy(trials_days=1, events_days=1, uploads_hours=1, idempotency_hours=1, lanes_days=1)


def finished(store: Store) -> Bench:
    """An exploration with six trials: 2 was verified, 3 is a record, 5 is the last."""
    holder = bench(store)
    for number in range(6):
        holder.measure(number, timing(1e-3 * (1 + number)))
    holder.commit(holder.send(2, purpose=Purpose.VERIFY), timing(1e-3))
    kept = record("r", 4e-3).model_copy(
        update={"trace": holder.candidate(3).trace, "exploration_id": holder.exploration_id}
    )
    store.records.put(TENANT, holder.lease, kept)
    store.jobs.set_state(holder.lease, JobState.FINISHED, JobOutcome.SUCCEEDED)
    store.leases.release(holder.lease)
    return holder


def age(store: Store) -> None:
    with store.database.writing() as connection:
        for change in (
            "UPDATE measurements SET measured_at = :old",
            "UPDATE jobs SET finished_at = :old WHERE state = 'finished'",
            "UPDATE uploads SET created_at = :old",
            "UPDATE idempotency_keys SET created_s = 0",
            "UPDATE lanes SET heard_s = 0",
        ):
            connection.execute(text(change), {"old": OLD})


def test_retention_keeps_recent_data(store: Store):
    holder = finished(store)
    store.uploads.create(TENANT, 3)
    store.idempotency_keys.claim(TENANT, "k", "digest")
    store.lanes.put(lane(state=LaneState.LOST))
    assert store.retention.apply(A_DAY) == RetentionReport()
    assert len(store.trials.of_exploration(holder.exploration_id)) == 6


def test_retention_keeps_trials_of_records(store: Store):
    holder = finished(store)
    before = store.explorations.get(TENANT, holder.exploration_id)
    age(store)
    report = store.retention.apply(A_DAY)
    assert (report.trials, report.measurements) == (3, 3)
    assert [trial.candidate.number for trial in store.trials.of_exploration(holder.exploration_id)] == [2, 3, 5]
    assert store.explorations.get(TENANT, holder.exploration_id) == before
    assert store.records.get(TENANT, "r").exploration_id == holder.exploration_id
    assert store.retention.apply(A_DAY).trials == 0


def test_retention_deletes_more_trials_than_one_transaction_takes(store: Store):
    holder = bench(store)
    for number in range(205):
        holder.measure(number, timing(1e-3))
    store.jobs.set_state(holder.lease, JobState.FINISHED, JobOutcome.SUCCEEDED)
    store.leases.release(holder.lease)
    age(store)
    assert store.retention.apply(A_DAY).trials == 204
    assert [trial.candidate.number for trial in store.trials.of_exploration(holder.exploration_id)] == [204]


def test_retention_keeps_exploration_in_use(store: Store):
    holder = bench(store)
    for number in range(3):
        holder.measure(number, timing(1e-3))
    age(store)
    assert store.retention.apply(A_DAY).trials == 0


def test_retention_keeps_retraction_events(store: Store):
    holder = finished(store)
    running = put_job(store)
    store.records.retract(TENANT, "r", "wrong")
    age(store)
    assert store.retention.apply(A_DAY).events > 0
    assert store.events.of_job(TENANT, holder.lease.job_id) == []
    assert len(store.events.of_job(TENANT, running.job_id)) == 1
    assert len(store.events.of_job(TENANT, TENANT_STREAM)) == 1
    assert store.jobs.get(TENANT, holder.lease.job_id).outcome is JobOutcome.SUCCEEDED


def test_retention_deletes_uploads_keys_and_lost_lanes(store: Store):
    upload = store.uploads.create(TENANT, 3)
    store.uploads.append(TENANT, upload.upload_id, 0, b"abc")
    store.idempotency_keys.claim(TENANT, "k", "digest")
    store.lanes.put(lane("host/0", LaneState.LOST))
    store.lanes.put(lane("host/1", LaneState.READY))
    age(store)
    report = store.retention.apply(A_DAY)
    assert (report.uploads, report.idempotency_keys, report.lanes) == (1, 1, 1)
    assert store.uploads.of_tenant(TENANT) == []
    assert store.garbage.collect().removed == 0
    assert [found.lane_id for found in store.lanes.find()] == ["host/1"]


def test_retention_without_policy_deletes_only_expired_keys(store: Store):
    finished(store)
    store.idempotency_keys.claim(TENANT, "k", "digest")
    age(store)
    assert store.retention.apply(RetentionPolicy()) == RetentionReport(idempotency_keys=1)
