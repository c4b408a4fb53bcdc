"""A job whose deadline passes while it waits ends with the stored results, without a device."""

import math
import threading
from collections.abc import Callable
from datetime import datetime

import pytest

from benchmarks.kernel_library import kernel_library
from tests.store.sample import (
    TENANT,
    Bench,
    bench,
    exploration_key,
    leased,
    manifest,
    put_job,
    put_task,
    record,
    spec,
    timing,
)
from tests.tuner.conftest import instant_farms, measure_job, state_of, wait_finished, wait_for
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.job.test_service import summary_of
from tunefarm_schemas.tuning.job import Job, JobOutcome, JobState
from tunefarm_services.store import Store
from tunefarm_services.telemetry.metrics import Metrics
from tunefarm_services.telemetry.telemetry import Telemetry
from tunefarm_services.telemetry.traces import Traces
from tunefarm_services.tuner.farm.no_device import NoDevice
from tunefarm_services.tuner.job.supervisor import Supervisor
from tunefarm_services.tuner.search.exploration_run import AS_GIVEN
from tunefarm_services.tuner.service.fork_servers import ForkServers
from tunefarm_services.tuner.service.leased_job import WAITING, Ended, LeasedJob
from tunefarm_services.tuner.service.service import NO_PLACE

Tuner = Callable[..., object]
MISSING = "no live device of class board"
SHORT_S = 0.3
PAUSED_S = 1.0
"""Enough to pause a job before its deadline."""
LONG_S = 3600.0


def no_device(lease: object, job: object) -> NoDevice:
    return NoDevice(MISSING)


def job_with_deadline(store: Store, deadline_s: float | None = SHORT_S, **changes: object) -> Job:
    return store.jobs.create(TENANT, spec(put_task(store)).model_copy(update={"deadline_s": deadline_s, **changes}))


def put_answer(store: Store) -> None:
    put_task(store)
    store.records.put(TENANT, None, record("known", 1e-3))
    store.artifacts.put(TENANT, manifest("artifact", "known", kernel_library()), kernel_library())


def test_waiting_job_shows_reason_and_deadline(store: Store, tuner: Tuner) -> None:
    unlimited = job_with_deadline(store, None)
    limited = job_with_deadline(store, LONG_S)

    def said(job: Job) -> str:
        return store.jobs.get(TENANT, job.job_id).message

    with tuner(no_device):
        wait_for(lambda: said(unlimited) and said(limited))
    assert said(unlimited) == MISSING
    reason, _, deadline = said(limited).partition(", until its deadline at ")
    assert reason == MISSING
    lasts_s = (datetime.fromisoformat(deadline) - datetime.fromisoformat(limited.created_at)).total_seconds()
    assert abs(lasts_s - LONG_S) <= 1.0


def test_job_without_device_ends_at_deadline(store: Store, tuner: Tuner) -> None:
    unlimited = job_with_deadline(store, None)
    limited = job_with_deadline(store)
    with tuner(no_device):
        wait_finished(store, limited)
    ended = store.jobs.get(TENANT, limited.job_id)
    assert ended.outcome is JobOutcome.FAILED
    assert "nothing was measured" in ended.message
    assert "deadline" in ended.message
    assert MISSING in ended.message
    summary = summary_of(store, limited.job_id)
    assert (summary["outcome"], summary["tasks"]) == ("failed", [])
    assert state_of(store, unlimited) is JobState.QUEUED


def test_stored_record_answers_overdue_job(store: Store, tuner: Tuner) -> None:
    put_answer(store)
    job = job_with_deadline(store)
    with tuner(no_device):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert (ended.outcome, ended.message) == (JobOutcome.SUCCEEDED, "answered from the store")
    (task,) = summary_of(store, job.job_id)["tasks"]
    assert (task["record_id"], task["artifact_id"], task["best_latency_s"]) == ("known", "artifact", 1e-3)
    assert task["answered_from_store"]
    assert len(store.explorations.of_job(TENANT, job.job_id)) == 1


@pytest.mark.parametrize(
    "changes", [{"fresh": True}, {"device_class_id": "board"}, {"protocol_id": "cpu-cold-cache/1"}], ids=str
)
def test_record_with_other_key_does_not_answer_overdue_job(
    store: Store, tuner: Tuner, changes: dict[str, object]
) -> None:
    put_answer(store)
    job = job_with_deadline(store, **changes)
    with tuner(no_device):
        wait_finished(store, job)
    assert store.jobs.get(TENANT, job.job_id).outcome is JobOutcome.FAILED


def test_unverified_trials_do_not_answer_overdue_job(store: Store, tuner: Tuner) -> None:
    job = job_with_deadline(store)
    tried = bench(store, job)
    tried.measure(0, timing(2e-3))
    store.leases.release(tried.lease)
    with tuner(no_device):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.FAILED
    assert "could not be verified" in ended.message
    assert MISSING in ended.message
    assert "submit the job again" in ended.message
    (task,) = summary_of(store, job.job_id)["tasks"]
    assert (task["stop_reason"], task["trials_in_store"], task["record_id"]) == ("deadline", 1, None)


def test_overdue_measure_job_ends_without_timings(store: Store, tuner: Tuner) -> None:
    job = measure_job(store, "a", "b", deadline_s=SHORT_S)
    with tuner(no_device):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.SUCCEEDED
    assert ended.message.startswith("2 of 2 have no timing")
    assert MISSING in ended.message


def test_overdue_measure_job_reports_earlier_timings(store: Store, tuner: Tuner) -> None:
    job = measure_job(store, "a", "b", deadline_s=SHORT_S)
    lease = leased(store, job)
    first, second = (
        store.explorations.open(
            lease, exploration_key(text).model_copy(update={"space_id": AS_GIVEN, "fresh_for": job.job_id})
        )
        for text in "ab"
    )
    assert store.explorations.hold(lease, first.exploration_id)
    Bench(store, lease, first.exploration_id).measure(0, timing(2e-3))
    store.leases.release(lease)
    with tuner(no_device):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.SUCCEEDED
    assert ended.message.startswith("1 of 2 have no timing")
    measured, missing = summary_of(store, job.job_id)["tasks"]
    assert (measured["exploration_id"], missing["exploration_id"]) == (first.exploration_id, second.exploration_id)
    assert (measured["best_latency_s"], missing["best_latency_s"]) == (2e-3, None)
    assert MISSING in missing["first_failure_message"]


def test_jobs_without_place_end_at_deadline(store: Store, tuner: Tuner) -> None:
    held, made = threading.Event(), []
    long = measure_job(store, "a", priority=1)
    with tuner(instant_farms(made, held), jobs_at_once=1):
        wait_for(lambda: state_of(store, long) is JobState.RUNNING)
        put_answer(store)
        known = job_with_deadline(store)
        unknown = [job_with_deadline(store, fresh=True) for _ in range(2)]
        unlimited, paused = job_with_deadline(store, None), job_with_deadline(store, PAUSED_S)
        store.job_requests.pause(TENANT, paused.job_id)
        late = job_with_deadline(store, PAUSED_S, fresh=True)
        wait_finished(store, known, *unknown, late)
        assert (state_of(store, long), state_of(store, paused)) == (JobState.RUNNING, JobState.PAUSED)
        assert state_of(store, unlimited) is JobState.QUEUED
        assert len(made) == 1, "a job that is only ended needs no farm"
        held.set()
        wait_finished(store, long)
        wait_for(lambda: len(made) == 2)
    assert store.jobs.get(TENANT, known.job_id).message == "answered from the store"
    for job in (*unknown, late):
        ended = store.jobs.get(TENANT, job.job_id)
        assert ended.outcome is JobOutcome.FAILED
        assert NO_PLACE in ended.message
        assert summary_of(store, job.job_id)["outcome"] == "failed"


@pytest.mark.parametrize("is_known", [False, True])
def test_job_waiting_for_exploration_ends_at_deadline(store: Store, tuner: Tuner, is_known: bool) -> None:
    if is_known:
        put_answer(store)
    holder = bench(store, put_job(store))
    job = job_with_deadline(store)
    made: list[InstantFarm] = []
    with tuner(instant_farms(made)):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    if is_known:
        assert (ended.outcome, ended.message) == (JobOutcome.SUCCEEDED, "answered from the store")
    else:
        assert ended.outcome is JobOutcome.FAILED
        assert WAITING in ended.message
    (task,) = summary_of(store, job.job_id)["tasks"]
    assert (task["exploration_id"], task["stop_reason"]) == (holder.exploration_id, "deadline")
    assert made
    assert all(farm.closed and not farm.submitted for farm in made)
    holder.measure(0, timing(2e-3))
    assert store.explorations.get(TENANT, holder.exploration_id).spent.trials == 1, "the other job has it still"


def test_supervisor_waits_for_exploration_until_deadline(store: Store, fork_servers: ForkServers) -> None:
    bench(store, put_job(store))
    lease = leased(store, job_with_deadline(store), owner="embedded")
    summary = Supervisor(store, InstantFarm(), fork_servers.present(), owner="embedded").run(lease)
    assert summary.outcome is JobOutcome.FAILED
    assert WAITING in summary.message


def test_job_wait_ends_at_deadline(store: Store, fork_servers: ForkServers) -> None:
    def run_leased(job: Job) -> Ended:
        telemetry = Telemetry(Metrics("tuner"), Traces())
        words = (store, leased(store, job), no_device, fork_servers, telemetry)
        return LeasedJob(*words, outage_s=0.0, on_search_child=lambda _: None).run()

    unlimited, limited = run_leased(job_with_deadline(store, None)), run_leased(job_with_deadline(store, LONG_S))
    assert unlimited.wait_s > 0
    assert unlimited.max_wait_s == math.inf
    assert limited.wait_s > 0
    assert 0 < limited.max_wait_s <= LONG_S
