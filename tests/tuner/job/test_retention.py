"""The retention job of a tuner removes expired rows and unreferenced blobs."""

import os
import time
from pathlib import Path

import pytest

from tests.fleet.sample import FACTS, document
from tests.store.sample import TENANT, put_task
from tunefarm_schemas.edge.device import EnrolmentRequest
from tunefarm_schemas.edge.release import GatePolicy
from tunefarm_schemas.edge.report import EdgeReport, EdgeReports, InstallReport
from tunefarm_services.fleet.rollout import RolloutState
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.fleet import edge_report_repository
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.tuner.service import retention
from tunefarm_services.tuner.service.retention import RetentionJob
from tunefarm_services.tuner.service.settings import TunerSettings

TWO_HOURS_S = 7200.0


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def made_earlier(folder: Path, blob_digest: str) -> None:
    (path,) = folder.rglob(blob_digest)
    earlier_s = time.time() - TWO_HOURS_S
    os.utime(path, (earlier_s, earlier_s))


def known(blobs: BlobStore) -> set[str]:
    return {blob.blob_digest for blob in blobs.stored()}


def test_retention_job_removes_unreferenced_blobs_after_an_hour(
    store: Store, blobs: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retention, "FIRST_S", 0.0)
    workload = put_task(store, "in use").workload_id
    left_over, on_its_way = blobs.put(b"left over"), blobs.put(b"on its way to a lane")
    for blob_digest in (workload, left_over):
        made_earlier(tmp_path / "blobs", blob_digest)
    RetentionJob(store, TunerSettings()).run_if_due()
    assert known(blobs) == {workload, on_its_way}


def test_retention_job_runs_hourly(store: Store, blobs: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tidies = RetentionJob(store, TunerSettings())
    made_earlier(tmp_path / "blobs", blobs.put(b"left over"))
    tidies.run_if_due()
    assert len(known(blobs)) == 1, "not in the tuner's first minute"
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + retention.EVERY_S)
    tidies.run_if_due()
    assert not known(blobs)
    made_earlier(tmp_path / "blobs", blobs.put(b"left over"))
    tidies.run_if_due()
    assert len(known(blobs)) == 1


def reported(store: Store, now_s: float, failures: dict[str, str | None]) -> None:
    """Enrol a device that reports the installations of ``failures``, each by the id of its report."""
    _, code = store.enrolments.create_code(Actor(TENANT, "token", now_s), "stable", {}, now_s + 100)
    made = store.enrolments.enrol(EnrolmentRequest(code=code, name="kitchen", facts=FACTS), now_s)
    assert made is not None
    device = store.edge_devices.get(TENANT, made.edge_device_id)
    reports = tuple(
        EdgeReport(report_id=name, at="2027-01-15T08:00:00Z", body=InstallReport(release="cnn-2", failure=failure))
        for name, failure in failures.items()
    )
    followed = store.rollouts.followed(TENANT, "stable")
    store.edge_reports.add(TENANT, device, EdgeReports(reports=reports), followed and followed[0], now_s)


def test_gate_stops_rollout_whose_devices_do_not_poll(store: Store):
    begin_s = time.time() - 60
    announced = document(gate=GatePolicy(stages_percent=(100,)))
    store.rollouts.announce(Actor(TENANT, "token", begin_s), announced)
    reported(store, begin_s, {"report-1": "load_failed"})
    job = RetentionJob(store, TunerSettings())
    job.judge_rollouts_if_due()
    assert store.rollouts.latest(TENANT, "stable").state is RolloutState.STOPPED


def test_retention_job_removes_old_reports_in_batches(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(retention, "FIRST_S", 0.0)
    monkeypatch.setattr(edge_report_repository, "OLD", edge_report_repository.OLD.limit(2))
    month_ago_s = time.time() - 31 * 86_400.0
    reported(store, month_ago_s, {f"report-{number}": None for number in range(5)})
    reported(store, month_ago_s + 2 * 86_400.0, {"report-6": None})
    RetentionJob(store, TunerSettings(keep_edge_reports_days=None)).run_if_due()
    RetentionJob(store, TunerSettings()).run_if_due()
    assert store.edge_reports.delete_older(time.time()) == 1
