"""What every store promises about a job that is asked to finish with what it has found."""

import pytest

from tests.store.sample import TENANT, leased, put_job, put_task, spec
from tunefarm_schemas.tuning.job import Job, JobOutcome, JobState
from tunefarm_services.store import FenceLost, JobFinished, JobRequest, NoSearch, Store


def requests_of(store: Store, job: Job) -> list[object]:
    return [event.data["request"] for event in store.events.of_job(TENANT, job.job_id) if event.kind == "requested"]


def test_the_owner_of_a_running_job_is_asked_once(store: Store) -> None:
    job = put_job(store)
    lease = leased(store)
    store.jobs.set_state(lease, JobState.RUNNING)
    for _ in range(2):
        assert store.job_requests.finish(TENANT, job.job_id).state is JobState.RUNNING
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH
    assert requests_of(store, job) == ["finish"]
    store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.SUCCEEDED)
    assert store.job_requests.pending(TENANT, job.job_id) is None


def test_a_paused_job_is_queued_to_be_finished(store: Store) -> None:
    job = put_job(store)
    store.job_requests.pause(TENANT, job.job_id)
    for _ in range(2):
        asked = store.job_requests.finish(TENANT, job.job_id)
        assert (asked.state, asked.message) == (JobState.QUEUED, "asked to finish")
    assert requests_of(store, job) == ["finish"]
    assert leased(store).job_id == job.job_id
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH


def test_the_request_outlives_an_owner_that_did_not_hear_it(store: Store) -> None:
    job = put_job(store)
    lease = leased(store)
    store.jobs.set_state(lease, JobState.RUNNING)
    store.job_requests.finish(TENANT, job.job_id)
    store.jobs.set_state(lease, JobState.QUEUED)
    store.leases.release(lease)
    assert store.jobs.get(TENANT, job.job_id).state is JobState.QUEUED
    assert store.job_requests.pending(TENANT, leased(store).job_id) is JobRequest.FINISH


def test_a_dead_owner_is_shut_out_by_it(store: Store) -> None:
    job = put_job(store)
    stalled = leased(store, seconds=0)
    store.job_requests.finish(TENANT, job.job_id)
    with pytest.raises(FenceLost):
        store.jobs.set_state(stalled, JobState.FINISHED, JobOutcome.FAILED)
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH


def test_going_on_does_not_take_it_back_and_a_pause_does(store: Store) -> None:
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


def test_one_that_overtakes_a_pause_wins(store: Store) -> None:
    job = put_job(store)
    lease = leased(store)
    store.job_requests.pause(TENANT, job.job_id)
    store.job_requests.finish(TENANT, job.job_id)
    assert store.jobs.set_state(lease, JobState.PAUSED).state is JobState.QUEUED
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH
    store.job_requests.cancel(TENANT, job.job_id)
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.CANCEL


def test_one_that_is_still_held_after_it_was_paused_is_queued(store: Store) -> None:
    job = put_job(store)
    lease = leased(store)
    store.jobs.set_state(lease, JobState.PAUSED)
    assert store.job_requests.finish(TENANT, job.job_id).state is JobState.QUEUED
    store.leases.release(lease)
    assert store.jobs.get(TENANT, job.job_id).state is JobState.QUEUED
    assert store.job_requests.pending(TENANT, job.job_id) is JobRequest.FINISH


@pytest.mark.parametrize("outcome", list(JobOutcome))
def test_a_job_that_is_over_refuses_it_and_names_its_outcome(store: Store, outcome: JobOutcome) -> None:
    job = put_job(store)
    store.jobs.set_state(leased(store), JobState.FINISHED, outcome)
    with pytest.raises(JobFinished, match=outcome.value):
        store.job_requests.finish(TENANT, job.job_id)


def test_a_job_that_only_measures_has_no_search_to_end(store: Store) -> None:
    job = store.jobs.create(TENANT, spec(put_task(store)).model_copy(update={"kind": "measure"}))
    with pytest.raises(NoSearch, match="cancel it"):
        store.job_requests.finish(TENANT, job.job_id)
    assert store.job_requests.pending(TENANT, job.job_id) is None
