"""A job reports its own trials over all its runs, beside the results that were already in the store."""

import threading
import time
from collections.abc import Callable

import pytest

from tests.store.sample import TENANT, leased
from tests.tuner import instant_farm
from tests.tuner.conftest import instant_farms, state_of, wait_finished, wait_for
from tests.tuner.instant_farm import InstantFarm, latency_of
from tests.tuner.job.test_effort_left import SEED, candidate, run_that_spent
from tests.tuner.job.test_service import summary_of
from tests.tuner.search.test_exploration_run import take, timing
from tests.tuner.search.test_searching import matmul, random_job, without_postprocessors
from tunefarm.terminal.job_text import job_text, task_text
from tunefarm_schemas.tuning.job import JobState
from tunefarm_schemas.tuning.measurement import Measurement, Stages
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.store import Store
from tunefarm_services.tuner.farm.attempts import dispatch_of
from tunefarm_services.tuner.job.job_run import JobRun
from tunefarm_services.tuner.job.job_watch import JobWatch
from tunefarm_services.tuner.search.exploration_run import ROUGH_GRAIN_S
from tunefarm_services.tuner.search.search_messages import KnownTrialMessage
from tunefarm_services.tuner.service.fork_servers import ForkServers
from tunefarm_services.tuner.verify.verifying_steps import comparison_step, export_step

Tuner = Callable[..., object]


@pytest.fixture
def fork_servers(searching_fork_servers: ForkServers) -> ForkServers:
    return searching_fork_servers


class CallingFarm(InstantFarm):
    """Calls ``on_enough`` once, when ``enough`` results are committed, and measures nothing more."""

    def __init__(self, enough: int, on_enough: Callable[[], None]) -> None:
        self._measures = threading.Event()
        self._measures.set()
        super().__init__(held=self._measures)
        self._enough = enough
        self._on_enough = on_enough

    def acknowledge(self, measurements: list[Measurement]) -> None:
        before = len(self.acknowledged)
        super().acknowledge(measurements)
        if before < self._enough <= len(self.acknowledged):
            self._measures.clear()
            self._on_enough()


def test_resumed_job_counts_trials_of_all_runs(store: Store, watcher: Store, tuner: Tuner) -> None:
    job = random_job(store, matmul(84), 16)
    farm = CallingFarm(4, lambda: watcher.job_requests.pause(TENANT, job.job_id))
    with tuner(lambda *_: farm):
        wait_for(lambda: state_of(watcher, job) is JobState.PAUSED)
    (first,) = summary_of(watcher, job.job_id)["tasks"]
    assert 4 <= first["trials"] < 16
    assert first["trials_in_run"] == first["trials"]
    watcher.job_requests.resume(TENANT, job.job_id)
    with tuner(instant_farms([])):
        wait_finished(watcher, job)
    summary = summary_of(watcher, job.job_id)
    (last,) = summary["tasks"]
    assert (last["trials"], last["trials_in_store"], last["trials_in_run"]) == (16, 16, 16 - first["trials"])
    text = job_text(summary)
    assert f"16 trials over all runs, {last['trials_in_run']} in the latest (16 in the store)" in text
    assert "in the latest run" in text


def test_progress_counts_the_trials_of_earlier_runs(store: Store) -> None:
    run = run_that_spent(3)
    for number in range(3):
        dispatch = dispatch_of(candidate(run, number, SEED), fence=1)
        measured = Measurement.answering(dispatch, timing(1e-5), Stages())
        run.add_known(KnownTrialMessage(candidate=dispatch.candidate, measurement=measured), is_of_job=number > 0)
    job = random_job(store, matmul(16), 10)
    progress = JobRun(job, JobWatch(store, leased(store, job)), [run], time.time()).progress("searching")
    # Two of the three trials belong to this job; the third also counts as spent.
    assert (progress.trials_done, progress.trials_budget) == (2, 9)


def test_job_does_not_count_trials_of_other_jobs(store: Store, tuner: Tuner) -> None:
    with tuner(instant_farms([])):
        wait_finished(store, random_job(store, matmul(88), 6))
        wait_finished(store, more := random_job(store, matmul(88), 10))
        wait_finished(store, answered := random_job(store, matmul(88), 10))
    (task,) = summary_of(store, more.job_id)["tasks"]
    assert (task["trials"], task["trials_in_run"], task["trials_in_store"]) == (4, 4, 10)
    (task,) = summary_of(store, answered.job_id)["tasks"]
    assert "answered from the store, 0 trials (10 in the store)" in task_text(task)


def test_job_reports_own_best_beside_stored_record(store: Store, tuner: Tuner) -> None:
    made: list[InstantFarm] = []
    with tuner(instant_farms(made)):
        wait_finished(store, random_job(store, matmul(92), 12))
        (standing,) = store.records.page(TENANT, workload_id=matmul(92).workload_id)
        made.clear()
        wait_finished(store, job := random_job(store, matmul(92), 2, fresh=True, seed=6))
    own_s = min(latency_of(dispatch.candidate.trace.text) for farm in made for dispatch in farm.submitted)
    assert own_s > standing.latency_s, "another seed: the test needs a search that loses"
    (task,) = summary_of(store, job.job_id)["tasks"]
    assert (task["record_id"], task["best_latency_s"]) == (standing.record_id, standing.latency_s)
    assert (task["run_best"]["latency_s"], task["run_best"]["timed"]) == (own_s, "side by side")
    assert (task["store_best"]["latency_s"], task["store_best"]["timed"]) == (standing.latency_s, "side by side")
    text = task_text(task)
    assert "this run's best" in text
    assert "the store's best" in text


def test_job_reports_latency_of_seed(store: Store, tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[InstantFarm] = []
    with tuner(instant_farms(made)):
        wait_finished(store, random_job(store, matmul(68), 3, fresh=True, seed=7))
        (standing,) = store.records.page(TENANT, workload_id=matmul(68).workload_id)
        sent = [dispatch.candidate.trace for dispatch in made[0].submitted]
        seed = next(trace for trace in sent if trace != standing.trace)
        known = {seed.text: 2.9e-5, standing.trace.text: standing.latency_s}
        monkeypatch.setattr(instant_farm, "latency_of", lambda text: known.get(text, standing.latency_s / 2))
        misfit_seed = Trace(text='[[["GetSBlock",[],["x","main"],["b0"]]],[]]')
        job = random_job(store, matmul(68), 12, seed_traces=(without_postprocessors(seed), misfit_seed))
        wait_finished(store, job)
        again = random_job(store, matmul(68), 12, seed_traces=(without_postprocessors(seed),))
        wait_finished(store, again)
    (task,) = summary_of(store, job.job_id)["tasks"]
    by_hand, unfit = task["seeds"]
    assert (by_hand["latency_s"], by_hand["timed"]) == (2.9e-5, "in the search")
    assert unfit["latency_s"] is None
    assert "not measured" in unfit["failure"]
    assert task["run_best"] is None, "its own best is what ships"
    (task,) = summary_of(store, again.job_id)["tasks"]
    assert [seed["latency_s"] for seed in task["seeds"]] == [2.9e-5], "answered from the store"
    assert "the seed          29 us, timed in the search" in task_text(task)


@pytest.mark.parametrize(("about_s", "is_shown"), [(3.8e-6, False), (2 * ROUGH_GRAIN_S, True)])
def test_speedup_is_hidden_for_imprecise_untuned_latency(store: Store, about_s: float, is_shown: bool) -> None:
    run = run_that_spent(0)
    take(run, 0, timing(1e-8))
    run.untuned_about_s = about_s
    job = random_job(store, matmul(16), 4)
    job_run = JobRun(job, JobWatch(store, leased(store, job)), [run], time.time())
    progress = job_run.progress("searching")
    assert (progress.untuned_latency_s == about_s, progress.untuned_is_rough) == (is_shown, is_shown)
    run.untuned_latency_s = 1e-8  # timed like the candidates
    assert job_run.progress("verifying").untuned_latency_s == 1e-8


def test_verification_steps_report_text_and_seconds_left(store: Store) -> None:
    run = run_that_spent(0)
    take(run, 0, timing(1e-3))
    run.builds_s[0] = 2.0
    job = random_job(store, matmul(16), 4)
    job_run = JobRun(job, leased(store, job), [run], time.time())
    assert job_run.progress("verifying").doing == ""
    step = comparison_step(run, run.fastest(1), 7)
    job_run.begin_step(step)
    shown = job_run.progress("verifying")
    assert "side by side" in shown.doing
    assert shown.seconds_left is not None
    assert 2.0 < shown.seconds_left <= step.seconds
    last = export_step(run, 1e-3, 7)
    assert last.seconds < step.seconds
    job_run.begin_step(last)
    assert "7 fresh processes" in job_run.progress("verifying").doing
    assert job_run.progress("searching").doing == ""


def test_long_untuned_function_adds_little_verification_time(store: Store) -> None:
    run = run_that_spent(0)
    take(run, 0, timing(0.1))
    without_s = comparison_step(run, run.fastest(1), 7).seconds
    run.untuned_about_s = 50.0
    assert comparison_step(run, run.fastest(1), 7).seconds < without_s + 10.0
