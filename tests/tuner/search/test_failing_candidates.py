"""A job whose candidates all fail ends by itself, with failure counts and the first failure."""

from collections.abc import Callable

from tests.search.tvm.test_workload import outputs_read_again
from tests.store.sample import TENANT
from tests.tuner.conftest import wait_finished
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.job.test_service import summary_of
from tests.tuner.search.test_searching import matmul, tune_job
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_schemas.tuning.measurement import Failed, Measurement
from tunefarm_search.tvm.workload import workload_of
from tunefarm_services.store import Store

Tuner = Callable[..., object]
REASONS = (FailureReason.BUILD_ERROR, FailureReason.WRONG_RESULT, FailureReason.CRASH)
TRIALS = 9


class FailingFarm(InstantFarm):
    """Fails every candidate, for one of three reasons."""

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        return self._answer(lambda dispatch: self._failure(dispatch.candidate.number))

    def _failure(self, number: int) -> Failed:
        return Failed(failure=TrialFailure(reason=REASONS[number % len(REASONS)], message=f"candidate {number} broke"))


def test_failed_job_counts_reasons_and_shows_first(store: Store, tuner: Tuner) -> None:
    job = tune_job(store, matmul(52), TRIALS)
    with tuner(lambda lease, job: FailingFarm()):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.FAILED
    for reason in REASONS:
        assert f"{reason.value} {TRIALS // len(REASONS)}" in ended.message
    assert "The first failure: candidate 0 broke" in ended.message
    (task,) = summary_of(store, job.job_id)["tasks"]
    assert task["failures"] == {reason.value: TRIALS // len(REASONS) for reason in REASONS}
    assert task["first_failure_message"] == "candidate 0 broke"
    assert task["record_id"] is None
    (exploration,) = store.explorations.of_job(TENANT, job.job_id)
    assert (exploration.spent.trials, exploration.best_latency_s) == (TRIALS, None)


def test_job_names_postprocessor_that_rejects_all_schedules(store: Store, tuner: Tuner) -> None:
    job = tune_job(store, workload_of(outputs_read_again(), "decomposed"), TRIALS)
    with tuner(lambda lease, job: InstantFarm()):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.FAILED
    assert "every schedule was rejected before measurement" in ended.message
    assert "RewriteParallelVectorizeUnroll" in ended.message
