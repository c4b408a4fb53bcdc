"""The contract of all stores for requests to finish a job with its best candidates."""

import pytest

from tests.store.sample import TENANT, leased, put_job, put_task, spec
from tunefarm_schemas.tuning.job import Job, JobOutcome, JobState
from tunefarm_services.store import FenceLost, JobFinished, JobRequest, NoSearch, Store


def requests_of(store: Store, job: Job) -> list[object]:
    return [event.data["request"] for event in store.events.of_job(TENANT, job.job_id) if event.kind == "requested"]


def test_finish_of_running_job_is_requested_once(store: Store) -> None:
    job = put_job(store)
    lease = leased(store)
    store.jobs.set_state(lease, JobState.RUNNING)
    for _ in range(2):
        assert store.job_requests.finish(TENANT, job.job_id).state is JobState.RUNNING
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH
    assert requests_of(store, job) == ["finish"]
    store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.SUCCEEDED)
    assert store.job_requests.pending(TENANT, job.job_id) is None


def test_finish_queues_paused_job(store: Store) -> None:
    job = put_job(store)
    store.job_requests.pause(TENANT, job.job_id)
    for _ in range(2):
        asked = store.job_requests.finish(TENANT, job.job_id)
        assert (asked.state, asked.message) == (JobState.QUEUED, "asked to finish")
    assert requests_of(store, job) == ["finish"]
    assert leased(store).job_id == job.job_id
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH


def test_finish_request_survives_its_owner(store: Store) -> None:
    job = put_job(store)
    lease = leased(store)
    store.jobs.set_state(lease, JobState.RUNNING)
    store.job_requests.finish(TENANT, job.job_id)
    store.jobs.set_state(lease, JobState.QUEUED)
    store.leases.release(lease)
    assert store.jobs.get(TENANT, job.job_id).state is JobState.QUEUED
    assert store.job_requests.pending(TENANT, leased(store).job_id) is JobRequest.FINISH


def test_finish_fences_off_dead_owner(store: Store) -> None:
    job = put_job(store)
    stalled = leased(store, seconds=0)
    store.job_requests.finish(TENANT, job.job_id)
    with pytest.raises(FenceLost):
        store.jobs.set_state(stalled, JobState.FINISHED, JobOutcome.FAILED)
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH


def test_finish_survives_resume_but_not_pause(store: Store) -> None:
    job = put_job(store)
    store.job_requests.finish(TENANT, job.job_id)
    store.job_requests.resume(TENANT, job.job_id)
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH
    lease = leased(store)
    store.job_requests.resume(TENANT, job.job_id)
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH
    store.job_requests.pause(TENANT, job.job_id)
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.PAUSE
    assert store.jobs.set_state(lease, JobState.PAUSED).state is JobState.PAUSED
    store.leases.release(lease)
    assert store.job_requests.resume(TENANT, job.job_id).state is JobState.QUEUED
    assert store.job_requests.pending(TENANT, job.job_id) is None


def test_finish_overrides_pending_pause(store: Store) -> None:
    job = put_job(store)
    lease = leased(store)
    store.job_requests.pause(TENANT, job.job_id)
    store.job_requests.finish(TENANT, job.job_id)
    assert store.jobs.set_state(lease, JobState.PAUSED).state is JobState.QUEUED
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH
    store.job_requests.cancel(TENANT, job.job_id)
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.CANCEL


def test_finish_queues_paused_job_with_owner(store: Store) -> None:
    job = put_job(store)
    lease = leased(store)
    store.jobs.set_state(lease, JobState.PAUSED)
    assert store.job_requests.finish(TENANT, job.job_id).state is JobState.QUEUED
    store.leases.release(lease)
    assert store.jobs.get(TENANT, job.job_id).state is JobState.QUEUED
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH


@pytest.mark.parametrize("outcome", list(JobOutcome))
def test_finish_of_finished_job_is_rejected(store: Store, outcome: JobOutcome) -> None:
    job = put_job(store)
    store.jobs.set_state(leased(store), JobState.FINISHED, outcome)
    with pytest.raises(JobFinished, match=outcome.value):
        store.job_requests.finish(TENANT, job.job_id)


def test_finish_of_measure_job_is_rejected(store: Store) -> None:
    job = store.jobs.create(TENANT, spec(put_task(store)).model_copy(update={"kind": "measure"}))
    with pytest.raises(NoSearch, match="cancel it"):
        store.job_requests.finish(TENANT, job.job_id)
    assert store.job_requests.pending(TENANT, job.job_id) is None
