"""A job that is asked to finish ends its search and ships its best schedules."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.sample import TENANT, leased
from tests.tuner.conftest import instant_farms, state_of, wait_finished, wait_for
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.job.test_service import summary_of
from tests.tuner.search.test_searching import TARGET, matmul, measured_numbers, random_job
from tunefarm.local.output_folder import NAMES, write_outputs
from tunefarm.report import page, plots
from tunefarm_schemas.tuning.job import Job, JobOutcome, JobState, StopReason
from tunefarm_schemas.tuning.measurement import Dispatch
from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_schemas.tuning.workload import Task
from tunefarm_schemas.views.jobs.summary import JobSummary
from tunefarm_services.store import Store
from tunefarm_services.tuner.job.supervisor import Supervisor
from tunefarm_services.tuner.service.fork_servers import ForkServers

Tuner = Callable[..., object]
ENDLESS = 100_000


@pytest.fixture
def fork_servers(searching_fork_servers: ForkServers) -> ForkServers:
    return searching_fork_servers


def wait_measured(store: Store, job: Job) -> None:
    def measured() -> list[int]:
        explorations = store.explorations.of_job(TENANT, job.job_id)
        return [number for each in explorations for number in measured_numbers(store, each.exploration_id)]

    wait_for(measured)


def assert_shipped(store: Store, job: Job) -> None:
    ended = store.jobs.get(TENANT, job.job_id)
    assert (ended.outcome, ended.message) == (JobOutcome.SUCCEEDED, "finished on request")
    (task,) = summary_of(store, job.job_id)["tasks"]
    assert (task["stop_reason"], bool(task["artifact_id"])) == ("requested", True)
    assert store.records.get(TENANT, str(task["record_id"])).status is RecordStatus.VERIFIED


def test_finish_request_ships_best_of_running_job(store: Store, tuner: Tuner) -> None:
    job = random_job(store, matmul(40), ENDLESS)
    with tuner(instant_farms([])):
        wait_measured(store, job)
        assert store.job_requests.finish(TENANT, job.job_id).state is JobState.RUNNING
        wait_finished(store, job)
    assert_shipped(store, job)
    (exploration,) = store.explorations.of_job(TENANT, job.job_id)
    assert exploration.spent.stop_reason is StopReason.REQUESTED
    assert 0 < exploration.spent.trials < ENDLESS
    assert "finish" in [event.data.get("request") for event in store.events.of_job(TENANT, job.job_id)]


def test_finish_request_of_paused_job_measures_nothing(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    job = random_job(store, matmul(44), ENDLESS)
    with tuner(instant_farms(made)):
        wait_measured(store, job)
        store.job_requests.pause(TENANT, job.job_id)
        wait_for(lambda: state_of(store, job) is JobState.PAUSED and all(farm.closed for farm in made))
        made.clear()
        store.job_requests.finish(TENANT, job.job_id)
        wait_finished(store, job)
    assert_shipped(store, job)
    assert not any(farm.submitted for farm in made)


def test_finish_request_without_timing_is_reported(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    job = random_job(store, matmul(48), ENDLESS)
    with tuner(instant_farms(made, threading.Event())):
        wait_for(lambda: made and made[0].submitted)
        store.job_requests.finish(TENANT, job.job_id)
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.FAILED
    assert ended.message.startswith("finished on request before anything was measured")
    (task,) = summary_of(store, job.job_id)["tasks"]
    assert (task["stop_reason"], task["record_id"]) == ("requested", None)


class HalfHeld(InstantFarm):
    """Never returns the candidates of one workload."""

    def __init__(self, workload_id: str) -> None:
        super().__init__()
        self._workload_id = workload_id
        self.kept = 0

    def submit(self, dispatch: Dispatch) -> None:
        of_task = {task.exploration_id: task.workload_id for task in self.opened}
        if of_task[dispatch.candidate.exploration_id] == self._workload_id:
            self.kept += 1
        else:
            super().submit(dispatch)


def test_finish_request_ships_tasks_with_result(
    store: Store, tuner: Tuner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_drawing", lambda title, about, _draw: page.Drawing(title, about))
    for name, drawn in (("latency_over_time", None), ("as_svg", ""), ("as_png", b"")):
        monkeypatch.setattr(plots, name, lambda *_, drawn=drawn: drawn)  # drawing takes seconds
    found, missing = matmul(52), matmul(56).model_copy(update={"name": "the other"})
    store.workloads.put(TENANT, missing)
    tasks = tuple(
        Task(workload_id=each.workload_id, target_id=TARGET.target_id, name=each.name) for each in (missing, found)
    )
    job = random_job(store, found, ENDLESS, tasks=tasks)
    with tuner(lambda lease, job: HalfHeld(missing.workload_id)):
        wait_measured(store, job)
        store.job_requests.finish(TENANT, job.job_id)
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.SUCCEEDED
    assert ended.message == "finished on request; nothing was found for the other"
    summary = JobSummary.model_validate(summary_of(store, job.job_id))
    first, second = summary.tasks
    assert (first.artifact_id, first.best_latency_s) == (None, None)
    assert second.artifact_id is not None
    write_outputs(store, summary, tmp_path / "out", None)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"task-2", *NAMES}


def test_job_after_finish_request_continues_search(store: Store, tuner: Tuner) -> None:
    with tuner(instant_farms([])):
        job = random_job(store, matmul(60), ENDLESS)
        wait_measured(store, job)
        store.job_requests.finish(TENANT, job.job_id)
        wait_finished(store, job)
        (exploration,) = store.explorations.of_job(TENANT, job.job_id)
        more = random_job(store, matmul(60), exploration.spent.trials + 4)
        wait_finished(store, more)
    assert summary_of(store, more.job_id)["tasks"][0]["trials"] == 4
    assert store.jobs.get(TENANT, more.job_id).message == ""


def test_finish_before_first_measurement_pauses_job(store: Store, fork_servers: ForkServers) -> None:
    job = random_job(store, matmul(64), ENDLESS)
    lease = leased(store, job)
    supervisor = Supervisor(store, InstantFarm(), fork_servers.present(), owner=lease.owner)
    supervisor.stop_requests.finish()
    assert supervisor.run(lease).outcome is None
    assert state_of(store, job) is JobState.PAUSED


def test_pause_keeps_job_paused_until_resumed(store: Store, fork_servers: ForkServers) -> None:
    job = random_job(store, matmul(68), ENDLESS)
    lease = leased(store, job)
    supervisor = Supervisor(
        store,
        InstantFarm(),
        fork_servers.present(),
        owner=lease.owner,
        on_measured=lambda _: supervisor.stop_requests.pause(),
    )
    assert supervisor.run(lease).outcome is None
    assert state_of(store, job) is JobState.PAUSED
    assert store.queue.lease_next("another", 1.0) is None
