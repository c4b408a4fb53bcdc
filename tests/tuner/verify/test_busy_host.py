"""A record measured on a busy host is timed again by the next job."""

from collections.abc import Callable
from typing import Any

from tests.store.sample import TENANT
from tests.tuner.conftest import wait_finished
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.job.test_service import summary_of
from tests.tuner.search.test_searching import matmul, random_job
from tunefarm_schemas.tuning.measurement import Exported, ExportOrder, ExportResult
from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_services.store import Store

Tuner = Callable[..., object]
TRIALS = 6


class BusyFarm(InstantFarm):
    """Reports the share ``load`` of other processes; fresh processes take up to twice as long."""

    def __init__(self, load: float) -> None:
        super().__init__()
        self._load = load

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        exported = super().export(order, on_wait)
        assert isinstance(exported, Exported)
        slower_s = tuple(each_s * (2 if self._load else 1) for each_s in exported.process_latencies_s[1:])
        latencies_s = (exported.process_latencies_s[0], *slower_s)
        return exported.model_copy(update={"process_latencies_s": latencies_s, "foreign_load": self._load})


def test_record_of_busy_host_is_timed_again(store: Store, tuner: Tuner) -> None:
    def tuned(load: float) -> tuple[dict[str, Any], str]:
        job = random_job(store, matmul(56), TRIALS)
        with tuner(lambda lease, job: BusyFarm(load)):
            wait_finished(store, job)
        summary = summary_of(store, job.job_id)
        return summary["tasks"][0], summary["message"]

    first, _ = tuned(load=0.5)
    (busy,) = store.records.page(TENANT)
    assert (busy.foreign_load, busy.was_busy, first["was_busy"]) == (0.5, True, True)
    assert busy.interval_s is not None
    low_us, high_us = (1e6 * edge_s for edge_s in busy.interval_s)
    assert f"taken while the host was busy: {low_us:.4g} - {high_us:.4g} us" in busy.status_reason

    again, message = tuned(load=0.5)
    assert (again["record_id"], again["trials"], again["was_busy"]) == (busy.record_id, 0, True)
    assert "as it is now" in message

    repeated, message = tuned(load=0.0)
    assert (repeated["trials"], repeated["answered_from_store"], repeated["was_busy"]) == (0, False, False)
    assert repeated["best_latency_s"] < busy.latency_s
    assert repeated["artifact_id"]
    assert "was timed again" in message
    retracted = store.records.get(TENANT, busy.record_id)
    assert retracted.status is RecordStatus.RETRACTED
    assert retracted.status_reason == f"taken while the host was busy; timed again as record {repeated['record_id']}"

    last, message = tuned(load=0.5)
    assert (last["record_id"], last["answered_from_store"]) == (repeated["record_id"], True)
    assert message == "answered from the store"
