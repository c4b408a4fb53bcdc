"""A schedule ships only if it is faster than the untuned function in the same fresh processes."""

from collections.abc import Callable, Sequence

import pytest

from tests.store.sample import TENANT
from tests.tuner import instant_farm
from tests.tuner.conftest import wait_finished
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.job.test_service import summary_of
from tests.tuner.search.test_searching import matmul, random_job
from tunefarm.terminal.job_text import task_text
from tunefarm_schemas.tuning.measurement import Comparison, ComparisonOrder, Exported, ExportOrder, ExportResult, Timing
from tunefarm_services.store import Store
from tunefarm_services.tuner.verify.ranking import UNTUNED
from tunefarm_services.tuner.verify.verifier import CLOSE

Tuner = Callable[..., object]
TRIALS = 6


class CloseFarm(InstantFarm):
    """The untuned function is ``ratio`` times as slow side by side, and ``ratios`` times in fresh processes."""

    def __init__(self, ratios: Sequence[float], ratio: float = 1.5) -> None:
        super().__init__()
        self._ratios = ratios
        self._ratio = ratio
        self._untuned_s = 0.0
        self.beside: list[bool] = []

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        *timed, _ = super().compare(order, on_wait).results
        self._untuned_s = self._ratio * min(each.latency_s for each in timed if isinstance(each, Timing))
        return Comparison(results=(*timed, Timing(latency_s=self._untuned_s, samples_s=(self._untuned_s,))))

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        self.beside.append(order.beside_untuned)
        exported = super().export(order, on_wait)
        assert isinstance(exported, Exported)
        if order.trace == UNTUNED:
            return exported.model_copy(update={"process_latencies_s": (self._untuned_s,) * 7})
        pairs = zip(exported.process_latencies_s, self._ratios, strict=False)
        return exported.model_copy(update={"untuned_latencies_s": tuple(own_s * ratio for own_s, ratio in pairs)})


@pytest.mark.parametrize(
    ("ratios", "is_untuned"),
    [
        pytest.param([1.05] * 5 + [0.95] * 2, False, id="slower in most processes"),
        pytest.param([1.05] * 7, False, id="slower"),
        pytest.param([1.0] * 7, True, id="as fast"),
        pytest.param([0.95] * 7, True, id="faster"),
        pytest.param([1.05] * 4 + [0.95] * 3, True, id="slower in about half of them"),
    ],
)
@pytest.mark.quick_cases(3)
def test_untuned_function_ships_if_as_fast_in_same_processes(
    store: Store, tuner: Tuner, ratios: list[float], is_untuned: bool
) -> None:
    job, farm = random_job(store, matmul(56), TRIALS), CloseFarm(ratios)
    with tuner(lambda lease, job: farm):
        wait_finished(store, job)
    (record,) = store.records.page(TENANT)
    assert (record.trace == UNTUNED) is is_untuned
    assert farm.beside == ([True, False] if is_untuned else [True])
    assert record.untuned_latency_s == pytest.approx(record.latency_s * (1.0 if is_untuned else 1.05))


def test_slow_untuned_function_is_not_exported(store: Store, tuner: Tuner) -> None:
    job, farm = random_job(store, matmul(56), TRIALS), CloseFarm([], ratio=7.0)
    with tuner(lambda lease, job: farm):
        wait_finished(store, job)
    assert farm.beside == [False]


class EstimatingFarm(CloseFarm):
    """Estimates its untuned function, which takes too long for a complete call."""

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        *timed, untuned = super().compare(order, on_wait).results
        assert isinstance(untuned, Timing)
        return Comparison(results=(*timed, untuned.model_copy(update={"is_estimate": True})))


def test_untuned_estimate_is_reported_without_calls(store: Store, tuner: Tuner) -> None:
    job, farm = random_job(store, matmul(56), TRIALS), EstimatingFarm([], ratio=1.6)
    with tuner(lambda lease, job: farm):
        wait_finished(store, job)
    assert farm.beside == [False]
    (record,) = store.records.page(TENANT)
    assert record.untuned_is_estimate
    assert "estimate" in record.status_reason
    (task,) = summary_of(store, job.job_id)["tasks"]
    assert task["untuned_is_estimate"]
    text = task_text(task)
    assert "estimated from a part of its steps" in text
    assert ", about " in text


def test_untuned_measurement_replaces_estimate(store: Store, tuner: Tuner) -> None:
    job, farm = random_job(store, matmul(56), TRIALS), EstimatingFarm([1.05] * 7, ratio=1.2)
    with tuner(lambda lease, job: farm):
        wait_finished(store, job)
    assert farm.beside == [True]
    (record,) = store.records.page(TENANT)
    assert not record.untuned_is_estimate


class NotingFarm(InstantFarm):
    """Records the compared schedules."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: list[ComparisonOrder] = []

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        self.compared.append(order)
        return super().compare(order, on_wait)


@pytest.mark.parametrize(("factor", "is_slow"), [(1.0, False), (1e5, True)])
def test_only_close_slow_schedules_are_compared(
    store: Store, tuner: Tuner, monkeypatch: pytest.MonkeyPatch, factor: float, is_slow: bool
) -> None:
    otherwise = instant_farm.latency_of
    monkeypatch.setattr(instant_farm, "latency_of", lambda text: factor * otherwise(text))
    job, farm = random_job(store, matmul(60), TRIALS), NotingFarm()
    with tuner(lambda lease, job: farm):
        wait_finished(store, job)
    (order,) = farm.compared
    *schedules, untuned = order.traces
    assert untuned is None
    latencies_s = sorted({factor * otherwise(trace.text) for trace in schedules if trace is not None})
    assert len(schedules) >= 1 if is_slow else len(schedules) >= 3
    assert not is_slow or latencies_s[-1] <= CLOSE * latencies_s[0]
