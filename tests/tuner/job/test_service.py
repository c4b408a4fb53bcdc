"""The tuner service leases jobs of several tenants from the queue, and releases them in every case."""

import threading
import time
from collections.abc import Callable

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.store.sample import DEVICE, TENANT
from tests.tuner.conftest import instant_farms, measure_job, state_of, wait_finished, wait_for
from tests.tuner.instant_farm import InstantFarm, latency_of
from tunefarm_schemas.bad_input import REFERENCE_IN_DOUBT, UnverifiableFunction
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_schemas.tuning.measurement import Failed, Measurement
from tunefarm_services.store import Store
from tunefarm_services.store.store_error import StoreUnavailable
from tunefarm_services.telemetry.traces import configure_traces
from tunefarm_services.tuner.farm.no_device import NoDevice
from tunefarm_services.tuner.verify.ranking import UNTUNED

Tuner = Callable[..., object]


def summary_of(store: Store, job_id: str, tenant: str = TENANT) -> dict:
    return [event.data for event in store.events.of_job(tenant, job_id) if event.kind == "summary"][-1]


def test_measure_job_measures_once_without_record(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    job = measure_job(store, "a", "b", "c", "a")
    with tuner(instant_farms(made)):
        wait_finished(store, job)
    assert store.jobs.get(TENANT, job.job_id).outcome is JobOutcome.SUCCEEDED
    tasks = summary_of(store, job.job_id)["tasks"]
    assert [task["best_latency_s"] for task in tasks] == [latency_of(UNTUNED.text)] * 4
    assert all(len(task["samples_s"]) == 2 and task["record_id"] is None for task in tasks)
    assert sum(len(farm.submitted) for farm in made) == 3
    assert all(farm.closed and len(farm.acknowledged) == len(farm.submitted) for farm in made)
    assert all(task.is_scheduled for farm in made for task in farm.opened)
    assert store.records.page(TENANT) == []


def test_job_books_usage_and_reports_progress(store: Store, tuner: Tuner) -> None:
    job = measure_job(store, *"abcd")
    with tuner(instant_farms([])):
        wait_finished(store, job)
    (usage,) = store.usage.of_tenant(TENANT)
    assert (usage.trials, usage.jobs, round(usage.device_seconds, 3)) == (4, 1, 1.0)
    assert usage.device_class_id == DEVICE.device_class.device_class_id
    progress = [event.data for event in store.events.of_job(TENANT, job.job_id) if event.kind == "progress"]
    assert progress
    assert {"trials_done", "best_latency_s", "trials_per_s", "seconds_left"} <= set(progress[0])


def test_measurements_are_spans_of_their_job(store: Store, tuner: Tuner) -> None:
    seen = InMemorySpanExporter()
    traces = configure_traces("tuner", None, exporter=seen)
    job = measure_job(store, *"abc")
    with tuner(instant_farms([]), traces=traces):
        wait_finished(store, job)
    traces.close()
    spans = seen.get_finished_spans()
    (of_job,) = (span for span in spans if span.name == "job")
    measured = [span for span in spans if span.name == "measure"]
    assert len(measured) == 3
    for span in measured:
        (trial,) = store.trials.of_exploration(str(span.attributes["exploration_id"]), tenant=TENANT)
        assert trial.candidate.number == span.attributes["candidate"]
    assert {span.parent.span_id for span in measured} == {of_job.context.span_id}
    assert all(span.attributes["result"] == "timing" for span in measured)


def test_queue_orders_by_priority_then_tenant(store: Store, tuner: Tuner) -> None:
    begun: list[tuple[str, str]] = []
    greedy = [measure_job(store, f"greedy {number}", tenant="greedy") for number in range(3)]
    modest = measure_job(store, "modest", tenant="modest")
    urgent = measure_job(store, "urgent", tenant="greedy", priority=5)

    def farm_for(lease, job) -> InstantFarm:
        begun.append((job.tenant, job.job_id))
        return InstantFarm()

    with tuner(farm_for, jobs_at_once=1):
        wait_finished(store, *greedy, modest, urgent)
    assert begun[0][1] == urgent.job_id
    assert begun[1][0] == "modest"


def test_job_without_device_stays_queued_with_reason(store: Store, tuner: Tuner) -> None:
    there = threading.Event()
    stuck = measure_job(store, "for a board", priority=9, device_class_id="board")
    others = [measure_job(store, f"other {number}") for number in range(3)]

    def farm_for(lease, job) -> InstantFarm | NoDevice:
        if job.spec.device_class_id and not there.is_set():
            return NoDevice("no live device of class board")
        return InstantFarm()

    with tuner(farm_for, jobs_at_once=1):
        wait_finished(store, *others)
        waiting = store.jobs.get(TENANT, stuck.job_id)
        assert (waiting.state, waiting.message) == (JobState.QUEUED, "no live device of class board")
        there.set()
        wait_finished(store, stuck)
    said = [
        event
        for event in store.events.of_job(TENANT, stuck.job_id)
        if event.data.get("message", "").startswith("no live")
    ]
    assert len(said) == 1, "each look for a device must not be an event"


def test_stop_requeues_jobs_with_measurements(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    job = measure_job(store, *"abcdefgh")
    held = threading.Event()
    with tuner(instant_farms(made, held)):
        wait_for(lambda: made and made[0].submitted)
    # The results are still held, so the tuner did not wait for them.
    assert not held.is_set()
    assert state_of(store, job) is JobState.QUEUED
    assert store.queue.lease_next("another", 0.0) is not None, "the lease was not released"
    with tuner(instant_farms(made)):
        wait_finished(store, job)
    assert [task["best_latency_s"] for task in summary_of(store, job.job_id)["tasks"]].count(None) == 0


def test_pause_resume_and_cancel_take_effect_soon(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    paused, canceled = measure_job(store, "a", "b"), measure_job(store, "c", "d")
    held = threading.Event()
    with tuner(instant_farms(made, held)):
        wait_for(lambda: len(made) == 2 and all(farm.submitted for farm in made))
        store.job_requests.pause(TENANT, paused.job_id)
        store.job_requests.cancel(TENANT, canceled.job_id)
        wait_for(lambda: state_of(store, paused) is JobState.PAUSED)
        wait_for(lambda: state_of(store, canceled) is JobState.FINISHED)
        assert store.jobs.get(TENANT, canceled.job_id).outcome is JobOutcome.CANCELED
        wait_for(lambda: all(farm.closed for farm in made))
        held.set()
        store.job_requests.resume(TENANT, paused.job_id)
        wait_finished(store, paused)
    assert store.jobs.get(TENANT, paused.job_id).outcome is JobOutcome.SUCCEEDED


def test_jobs_survive_store_outage(store: Store, watcher: Store, tuner: Tuner, monkeypatch) -> None:
    """The connection is lost at the first commit of results, for one second."""
    made: list[InstantFarm] = []
    jobs = [measure_job(store, *f"{number}xyz") for number in range(3)]
    back_at_s: list[float] = []
    for repository, name in (
        (store.measurements, "commit"),
        (store.leases, "renew"),
        (store.queue, "lease_next"),
        (store.jobs, "get"),
    ):
        monkeypatch.setattr(repository, name, _cut(getattr(repository, name), name, back_at_s))
    with tuner(instant_farms(made)):
        wait_finished(watcher, *jobs)
    monkeypatch.undo()
    assert sum(len(farm.submitted) for farm in made) == 12, "nothing is measured twice"
    for job in jobs:
        assert store.jobs.get(TENANT, job.job_id).outcome is JobOutcome.SUCCEEDED
        for exploration in store.explorations.of_job(TENANT, job.job_id):
            assert exploration.spent.trials == 1


def _cut(method: Callable[..., object], name: str, back_at_s: list[float]) -> Callable[..., object]:
    def away(*words: object, **named: object) -> object:
        if not back_at_s and name == "commit":
            back_at_s.append(time.monotonic() + 1.0)
        if back_at_s and time.monotonic() < back_at_s[0]:
            raise StoreUnavailable("The connection was cut.", "Wait.")
        return method(*words, **named)

    return away


def test_two_tuners_share_queue_without_duplicates(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    jobs = [measure_job(store, f"{number} one", f"{number} two") for number in range(10)]
    with tuner(instant_farms(made), jobs_at_once=2), tuner(instant_farms(made), jobs_at_once=2):
        wait_finished(store, *jobs)
    assert len(made) == 10
    assert sum(len(farm.submitted) for farm in made) == 20
    for job in jobs:
        states = [event.data["state"] for event in store.events.of_job(TENANT, job.job_id) if event.kind == "state"]
        assert states == ["running", "finished"]


def test_job_is_poisoned_after_three_tuner_failures(store: Store, tuner: Tuner) -> None:
    broken, sound = measure_job(store, "broken"), measure_job(store, "sound")

    def farm_for(lease, job) -> InstantFarm:
        if job.job_id == broken.job_id:
            raise RuntimeError("a fault of this software")
        return InstantFarm()

    with tuner(farm_for):
        wait_finished(store, sound, broken)
    ended = store.jobs.get(TENANT, broken.job_id)
    assert ended.outcome is JobOutcome.FAILED
    assert "poisoned" in ended.message


class LosingFarm(InstantFarm):
    """Loses the device in the first attempt at each candidate."""

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        lost = Failed(failure=TrialFailure(reason=FailureReason.DEVICE_LOST, message="Its worker went away."))
        found = super().collect(timeout_s)
        return [each if each.attempt > 1 else each.model_copy(update={"result": lost}) for each in found]


def failing_once(method: Callable[..., object], fails: Callable[..., bool]) -> Callable[..., object]:
    """``method``, without the store at the first call for which ``fails`` is true."""
    failed: list[bool] = []

    def wrapped(*words: object) -> object:
        if not failed and fails(*words):
            failed.append(True)
            raise StoreUnavailable("The connection was cut.", "Wait.")
        return method(*words)

    return wrapped


def test_lost_candidate_is_repeated_after_the_tuner_ended_in_between(
    store: Store, tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is committed; the second attempt is not stored."""
    put = failing_once(store.trials.put, lambda _lease, candidates, _dispatches: not candidates)
    monkeypatch.setattr(store.trials, "put", put)
    farm = LosingFarm()
    job = measure_job(store, "a")
    with tuner(lambda _lease, _job: farm):
        wait_finished(store, job)
    assert [(sent.candidate.number, sent.attempt) for sent in farm.submitted] == [(0, 1), (0, 2)]
    assert store.jobs.get(TENANT, job.job_id).message == ""


def test_results_are_billed_if_the_store_goes_away_after_their_commit(
    store: Store, tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = failing_once(store.events.append, lambda _lease, kind, _data: kind == "improved")
    monkeypatch.setattr(store.events, "append", append)
    job = measure_job(store, *"abcd")
    with tuner(instant_farms([])):
        wait_finished(store, job)
    (usage,) = store.usage.of_tenant(TENANT)
    assert (usage.trials, round(usage.device_seconds, 3)) == (4, 1.0)


class RefusingFarm(InstantFarm):
    """Ends the attempt at the first task, and then reports why, as a lane does."""

    def __init__(self, field: str) -> None:
        super().__init__()
        self._field = field
        self._problem: UnverifiableFunction | None = None

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem
        first, found = self.opened[0].exploration_id, super().collect(timeout_s)
        if any(each.exploration_id == first for each in found):
            self._problem = UnverifiableFunction(first, self._field, "It gives NaN.", "Look at it.")
        canceled = Failed(failure=TrialFailure(reason=FailureReason.CANCELED, message="It was canceled."))
        return [each.model_copy(update={"result": canceled} if each.exploration_id == first else {}) for each in found]


def test_unverifiable_module_fails_its_own_task(store: Store, tuner: Tuner) -> None:
    job = measure_job(store, *"abc")
    with tuner(lambda _lease, _job: RefusingFarm("module")):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert (ended.outcome, ended.message) == (JobOutcome.SUCCEEDED, "1 of 3 have no timing")
    bad, *sound = summary_of(store, job.job_id)["tasks"]
    assert (bad["failures"], bad["first_failure_message"]) == (
        {"invalid_schedule": 1},
        "module: It gives NaN. Look at it.",
    )
    assert all(task["best_latency_s"] for task in sound)


def test_damaged_reference_fails_the_job(store: Store, tuner: Tuner) -> None:
    job = measure_job(store, *"abc")
    with tuner(lambda _lease, _job: RefusingFarm(REFERENCE_IN_DOUBT)):
        wait_finished(store, job)
    assert store.jobs.get(TENANT, job.job_id).outcome is JobOutcome.FAILED
