"""The retention job of a tuner removes expired rows and unreferenced blobs."""

import os
import time
from pathlib import Path

import pytest

from tests.store.sample import put_task
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
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
