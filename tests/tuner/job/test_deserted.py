"""A job whose deadline has passed ends although no lane is left that could measure for it."""

import threading
import time
from collections.abc import Callable

import pytest

from tests.store.sample import TENANT
from tests.tuner.conftest import measure_job, state_of, wait_finished, wait_for
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.job.test_service import summary_of
from tests.tuner.search.test_searching import matmul, random_job
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_schemas.tuning.measurement import Comparison, ComparisonOrder, Failed
from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_services.store import Store
from tunefarm_services.tuner.job import job_run
from tunefarm_services.tuner.service.fork_servers import ForkServers

Tuner = Callable[..., object]
SHORT_S = 0.3


@pytest.fixture
def fork_servers(searching_fork_servers: ForkServers) -> ForkServers:
    return searching_fork_servers


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_run, "DESERTED_S", 0.2)


class DesertedFarm(InstantFarm):
    """Its lanes are gone when a result is verified."""

    waited_s = 0.0

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        self.lanes_left = False
        while on_wait():
            time.sleep(0.01)
            self.waited_s += 0.01
        canceled = Failed(failure=TrialFailure(reason=FailureReason.CANCELED, message="It was canceled."))
        return Comparison(results=(canceled,) * len(order.traces))


def test_verification_without_lanes_ends_with_claims(
    store: Store, tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm = DesertedFarm()
    # The deadline passes with the last lane, however long the search took.
    monkeypatch.setattr(job_run.JobRun, "deadline_passed", lambda _run: not farm.lanes_left)
    job = random_job(store, matmul(52), 4)
    with tuner(lambda _lease, _job: farm):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.FAILED
    (exploration,) = store.explorations.of_job(TENANT, job.job_id)
    assert not exploration.is_verified
    statuses = [each.status for each in store.records.page(TENANT, exploration_id=exploration.exploration_id)]
    assert statuses == [RecordStatus.CLAIMED]


def test_verification_without_a_deadline_waits_for_lanes(store: Store, tuner: Tuner) -> None:
    farms: list[DesertedFarm] = []

    def farm(_lease: object, _job: object) -> DesertedFarm:
        farms.append(DesertedFarm())
        return farms[-1]

    job = random_job(store, matmul(56), 4)
    with tuner(farm):
        wait_for(lambda: farms and farms[0].waited_s > 2 * job_run.DESERTED_S)
        assert state_of(store, job) is JobState.RUNNING
        store.job_requests.cancel(TENANT, job.job_id)
        wait_finished(store, job)


def test_measuring_without_lanes_ends_with_what_there_is(store: Store, tuner: Tuner) -> None:
    job = measure_job(store, "a", "b", deadline_s=SHORT_S)

    def farm(_lease: object, _job: object) -> InstantFarm:
        held = InstantFarm(held=threading.Event())
        held.lanes_left = False
        return held

    with tuner(farm):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert (ended.outcome, ended.message) == (JobOutcome.SUCCEEDED, "2 of 2 have no timing")
    assert [each["best_latency_s"] for each in summary_of(store, job.job_id)["tasks"]] == [None, None]
