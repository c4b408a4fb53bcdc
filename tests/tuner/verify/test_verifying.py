"""Verification: retries after a lost device, decides between schedules, and rejects impossible results."""

from collections.abc import Callable, Iterable
from itertools import islice

import pytest

from tests.store.sample import TENANT
from tests.tuner import instant_farm
from tests.tuner.conftest import instant_farms, wait_finished
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.job.test_service import summary_of
from tests.tuner.search.test_searching import matmul, random_job
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_schemas.tuning.measurement import (
    Comparison,
    ComparisonOrder,
    Exported,
    ExportOrder,
    ExportResult,
    Failed,
    Measurement,
    Timing,
)
from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.store import Store
from tunefarm_services.tuner.job import job_verification
from tunefarm_services.tuner.verify.ranking import UNTUNED

Tuner = Callable[..., object]
TRIALS = 6
CANCELED = Failed(failure=TrialFailure(reason=FailureReason.CANCELED, message="It was canceled."))
BROKEN = Failed(failure=TrialFailure(reason=FailureReason.BUILD_ERROR, message="The compiler divided by zero."))
LOST = Failed(failure=TrialFailure(reason=FailureReason.DEVICE_LOST, message="Its worker went away."))


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_verification, "VERIFY_AGAIN_AFTER_S", (0.1, 0.1))


class LosingFarm(InstantFarm):
    """Loses the device in the first ``losses`` exports."""

    def __init__(self, losses: int) -> None:
        super().__init__()
        self.losses = losses

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        self.losses -= 1
        return LOST if self.losses >= 0 else super().export(order, on_wait)


class TimingFarm(InstantFarm):
    """Its fresh processes take ``latencies_s``, in order."""

    def __init__(self, latencies_s: Iterable[float]) -> None:
        super().__init__()
        self._latencies_s = iter(latencies_s)
        self.exported: list[str] = []

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        assert order.trace is not None
        self.exported.append(order.trace.text)
        exported = super().export(order, on_wait)
        assert isinstance(exported, Exported)
        took_s = tuple(islice(self._latencies_s, order.processes))
        untuned_s = self.untuned_beside(took_s) if order.beside_untuned else ()
        return exported.model_copy(update={"process_latencies_s": took_s, "untuned_latencies_s": untuned_s})

    def untuned_beside(self, took_s: tuple[float, ...]) -> tuple[float, ...]:
        """Latencies of the untuned function in the same processes."""
        return tuple(9 * each_s for each_s in took_s)


OF_THE_SECOND_S = [9.0] * 15
"""If the processes of the fastest schedule are scattered, the second schedule is timed as well."""


@pytest.mark.parametrize(
    ("few_s", "more_s", "latency_s"),
    [
        pytest.param([1e-6] * 6 + [9e-6], [], 1e-6, id="alike but for one"),
        pytest.param([1e-6] * 5 + [2e-6] * 2, [2e-6] * 8, 2e-6, id="far apart"),
        pytest.param([1.0] * 7, [0.5] * 8, 0.5, id="slower than before"),
    ],
)
@pytest.mark.quick_cases(2)
def test_inconclusive_processes_cause_more_processes(
    store: Store, tuner: Tuner, few_s: list[float], more_s: list[float], latency_s: float
) -> None:
    job = random_job(store, matmul(56), TRIALS)
    with tuner(lambda lease, job: TimingFarm(few_s + more_s + OF_THE_SECOND_S)):
        wait_finished(store, job)
    (record,) = store.records.page(TENANT)
    assert record.latency_s == latency_s
    assert record.interval_s == (min(few_s + more_s), max(few_s + more_s))
    assert f"in {len(few_s + more_s)} fresh processes" in record.status_reason


class BriefFarm(TimingFarm):
    """Side by side, schedules take about 300 ns and the untuned function 330 ns."""

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        *timed, _ = super().compare(order, on_wait).results
        brief_s = [300e-9 + 1e-9 * place for place in range(len(timed))]
        brief = [Timing(latency_s=each_s, samples_s=(each_s,)) for each_s in brief_s]
        return Comparison(results=(*brief, Timing(latency_s=330e-9, samples_s=(330e-9,))))

    def untuned_beside(self, took_s: tuple[float, ...]) -> tuple[float, ...]:
        """Empty: this farm cannot time both in one process."""
        return ()


@pytest.mark.parametrize(("untuned_s", "is_untuned"), [(335e-9, True), (345e-9, False)])
def test_slow_export_is_compared_with_untuned_export(
    store: Store, tuner: Tuner, untuned_s: float, is_untuned: bool
) -> None:
    job = random_job(store, matmul(56), TRIALS)
    farm = BriefFarm([340e-9] * 15 + [untuned_s] * 15)
    with tuner(lambda lease, job: farm):
        wait_finished(store, job)
    (record,) = store.records.page(TENANT)
    assert (record.trace == UNTUNED) is is_untuned
    assert record.latency_s == min(340e-9, untuned_s)
    assert record.untuned_latency_s == untuned_s


TWO_KINDS_S = [1.0] * 7 + [2.0] * 8


@pytest.mark.parametrize(
    ("second_s", "is_second"),
    [
        pytest.param([1.4] * 15, True, id="the second is faster on the whole, though not in every process"),
        pytest.param([1.4] * 3 + [1.7] * 4, False, id="the second is slower on the whole"),
    ],
)
def test_mean_decides_for_bimodal_schedule(store: Store, tuner: Tuner, second_s: list[float], is_second: bool) -> None:
    farm = TimingFarm(TWO_KINDS_S + second_s)
    job = random_job(store, matmul(56), TRIALS)
    with tuner(lambda lease, job: farm):
        wait_finished(store, job)
    (record,) = store.records.page(TENANT)
    assert len(set(farm.exported)) == 2
    assert len(farm.exported) == (4 if is_second else 3), "a few processes show that the second one is not faster"
    first, second = farm.exported[0], farm.exported[2]
    assert record.trace.text == (second if is_second else first)
    shipped_s = second_s if is_second else TWO_KINDS_S
    assert record.interval_s == (min(shipped_s), max(shipped_s))


def test_verification_is_retried_after_lost_device(store: Store, tuner: Tuner) -> None:
    job = random_job(store, matmul(56), TRIALS)
    with tuner(lambda lease, job: LosingFarm(2)):
        wait_finished(store, job)
    assert store.jobs.get(TENANT, job.job_id).outcome is JobOutcome.SUCCEEDED
    assert [record.status for record in store.records.page(TENANT)] == [RecordStatus.VERIFIED]


def test_unverified_job_keeps_trials_and_claim(store: Store, tuner: Tuner) -> None:
    job = random_job(store, matmul(60), TRIALS)
    with tuner(lambda lease, job: LosingFarm(100)):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.FAILED
    assert "could not be verified: Its worker went away." in ended.message
    assert "submit the job again" in ended.message
    assert [record.status for record in store.records.page(TENANT)] == [RecordStatus.CLAIMED]
    again = random_job(store, matmul(60), TRIALS)
    with tuner(instant_farms([])):
        wait_finished(store, again)
    assert store.jobs.get(TENANT, again.job_id).outcome is JobOutcome.SUCCEEDED
    assert summary_of(store, again.job_id)["tasks"][0]["trials"] == 0


class LateFarm(InstantFarm):
    """Fails every build, and then finds that the outputs of the function are not finite."""

    def __init__(self) -> None:
        super().__init__()
        self._has_judged = False

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        self._has_judged = True
        return Comparison(results=(CANCELED,) * len(order.traces))

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        if self._has_judged:
            raise BadInput("module", "it gives numbers that are not finite.", "Look at its inputs.")
        return [measurement.model_copy(update={"result": BROKEN}) for measurement in super().collect(timeout_s)]


def test_unverifiable_function_is_reported_after_failed_candidates(store: Store, tuner: Tuner) -> None:
    job = random_job(store, matmul(56), TRIALS)
    with tuner(lambda lease, job: LateFarm()):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.FAILED
    assert "not finite" in ended.message


class LostInTheEnd(InstantFarm):
    """Loses the device in every comparison."""

    def __init__(self) -> None:
        super().__init__()
        self.compared = 0

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        self.compared += 1
        return Comparison(results=(LOST,) * len(order.traces))


def test_next_job_verifies_unverified_trials(store: Store, tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    first = random_job(store, matmul(56), TRIALS)
    with tuner(instant_farms([])):
        wait_finished(store, first)
    (standing,) = store.records.page(TENANT)
    otherwise, known = instant_farm.latency_of, {"", UNTUNED.text, standing.trace.text}
    monkeypatch.setattr(instant_farm, "latency_of", lambda text: otherwise(text) / (1 if text in known else 4))
    more, farm = random_job(store, matmul(56), 8 * TRIALS), LostInTheEnd()
    with tuner(lambda lease, job: farm):
        wait_finished(store, more)
    assert farm.compared == 1 + len(job_verification.VERIFY_AGAIN_AFTER_S)
    summary = summary_of(store, more.job_id)
    assert summary["tasks"][0]["record_id"] == standing.record_id
    assert summary["tasks"][0]["artifact_id"], "the standing record has its artifact"
    assert "could not be verified: Its worker went away." in summary["message"]
    again = random_job(store, matmul(56), 8 * TRIALS)
    with tuner(instant_farms([])):
        wait_finished(store, again)
    (task,) = summary_of(store, again.job_id)["tasks"]
    assert (task["trials"], task["answered_from_store"]) == (0, False)
    assert task["best_latency_s"] < standing.latency_s, "a new schedule is faster than the standing one"
    last = random_job(store, matmul(56), 8 * TRIALS)
    with tuner(instant_farms([])):
        wait_finished(store, last)
    assert summary_of(store, last.job_id)["tasks"][0]["answered_from_store"]


class UnfairFarm(InstantFarm):
    """Fails to compare ``trace``, and is slower than before for all other schedules."""

    def __init__(self, trace: Trace, result: Failed) -> None:
        super().__init__()
        self._trace = trace
        self._result = result

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        slow = Timing(latency_s=1.0, samples_s=(1.0, 1.0))
        return Comparison(results=tuple(self._result if trace == self._trace else slow for trace in order.traces))

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        exported = super().export(order, on_wait)
        assert isinstance(exported, Exported)
        return exported.model_copy(update={"process_latencies_s": (1.0,) * order.processes})


@pytest.mark.parametrize(
    ("reason", "stands"), [(FailureReason.OUT_OF_MEMORY, True), (FailureReason.WRONG_RESULT, False)]
)
def test_record_is_retracted_only_by_evidence(store: Store, tuner: Tuner, reason: FailureReason, stands: bool) -> None:
    first = random_job(store, matmul(56), TRIALS)
    with tuner(instant_farms([])):
        wait_finished(store, first)
    (standing,) = store.records.page(TENANT)
    failed = Failed(failure=TrialFailure(reason=reason, message="So it ended."))
    more = random_job(store, matmul(56), 2 * TRIALS)
    with tuner(lambda lease, job: UnfairFarm(standing.trace, failed)):
        wait_finished(store, more)
    (task,) = summary_of(store, more.job_id)["tasks"]
    assert (task["record_id"] == standing.record_id) is stands
    (now,) = [record for record in store.records.page(TENANT) if record.record_id == standing.record_id]
    assert now.status is (RecordStatus.VERIFIED if stands else RecordStatus.RETRACTED)
    assert stands or "wrong_result: So it ended." in now.status_reason


class CrampedFarm(InstantFarm):
    """Runs out of memory for the untuned function."""

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        timed = super().compare(order, on_wait).results
        failed = Failed(failure=TrialFailure(reason=FailureReason.OUT_OF_MEMORY, message="std::bad_alloc"))
        return Comparison(results=(*timed[:-1], failed))


def test_record_notes_missing_untuned_comparison(store: Store, tuner: Tuner) -> None:
    job = random_job(store, matmul(56), TRIALS)
    with tuner(lambda lease, job: CrampedFarm()):
        wait_finished(store, job)
    (record,) = store.records.page(TENANT)
    assert record.untuned_latency_s is None
    assert "the untuned function could not be timed beside it (out_of_memory)" in record.status_reason


class DamagedFarm(InstantFarm):
    """Finds wrong results of the untuned function and the standing record."""

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        del on_wait
        timed = super().compare(order, lambda: True).results
        return Comparison(results=(*timed[:-2], WRONG, WRONG))


WRONG = Failed(failure=TrialFailure(reason=FailureReason.WRONG_RESULT, message="The output is wrong."))


def test_wrong_untuned_function_raises_alarm_without_record(store: Store, tuner: Tuner) -> None:
    farms = iter([InstantFarm(), DamagedFarm()])
    first = random_job(store, matmul(56), TRIALS)
    with tuner(lambda lease, job: next(farms)):
        wait_finished(store, first)
        before = store.records.page(TENANT)
        second = random_job(store, matmul(56), 2 * TRIALS)
        wait_finished(store, second)
    ended = store.jobs.get(TENANT, second.job_id)
    assert ended.outcome is JobOutcome.FAILED
    assert "reference cannot be trusted" in ended.message
    assert store.records.page(TENANT) == before
    assert [record.status for record in before] == [RecordStatus.VERIFIED]
    assert "reference_in_doubt" in [event.kind for event in store.events.of_job(TENANT, second.job_id)]


class BoastingFarm(InstantFarm):
    """Reports impossible latencies: of trials, of schedules side by side, or of fresh processes."""

    def __init__(self, of: str, latency_s: float) -> None:
        super().__init__()
        self._of = of
        self._timing = Timing(latency_s=latency_s, samples_s=(latency_s,))

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        results = super().collect(timeout_s)
        return (
            [each.model_copy(update={"result": self._timing}) for each in results] if self._of == "trials" else results
        )

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        results = super().compare(order, on_wait)
        return Comparison(results=(self._timing,) * len(results.results)) if self._of == "comparison" else results

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        exported = super().export(order, on_wait)
        assert isinstance(exported, Exported)
        latencies_s = (1e-5, self._timing.latency_s, *(1e-5,) * (order.processes - 2))
        return exported.model_copy(update={"process_latencies_s": latencies_s}) if self._of == "export" else exported


@pytest.mark.parametrize("of", ["comparison", "export"])
@pytest.mark.parametrize("latency_s", [3e-9, 150e-9, 5e-324])
@pytest.mark.quick_cases(3)
def test_impossible_latency_makes_no_record(store: Store, tuner: Tuner, of: str, latency_s: float) -> None:
    job = random_job(store, matmul(56), TRIALS)
    with tuner(lambda lease, job: BoastingFarm(of, latency_s)):
        wait_finished(store, job)
    assert store.records.page(TENANT) == []
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.FAILED
    assert "Its time is not believed" in ended.message


def test_trial_with_impossible_latency_is_stored_as_wrong(store: Store, tuner: Tuner) -> None:
    job = random_job(store, matmul(56), TRIALS)
    with tuner(lambda lease, job: BoastingFarm("trials", 3e-9)):
        wait_finished(store, job)
    (task,) = summary_of(store, job.job_id)["tasks"]
    trials = store.trials.of_exploration(task["exploration_id"], tenant=TENANT)
    results = [trial.measurement.result for trial in trials if trial.measurement is not None]
    assert len(results) == TRIALS
    assert all(isinstance(result, Failed) for result in results)
    assert {result.failure.reason for result in results if isinstance(result, Failed)} == {FailureReason.WRONG_RESULT}
    assert all(record.latency_s > 1e-6 for record in store.records.page(TENANT)), "at most the untuned function is left"
