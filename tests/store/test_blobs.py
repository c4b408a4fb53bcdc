"""Blobs match their digests, or reading them fails."""

from pathlib import Path

import pytest

from tests.store.sample import TENANT, put_job, workload
from tunefarm_schemas.frozen import digest
from tunefarm_services.store import BlobDamaged, BlobMissing, Store
from tunefarm_services.store.blob_store import BlobStore


def blob_path(tmp_path: Path, content: str) -> Path:
    name = digest(content)
    return tmp_path / "blobs" / "sha256" / name[:2] / name


def test_get_detects_flipped_bits_and_put_repairs_them(store: Store, tmp_path: Path):
    put_job(store)
    path = blob_path(tmp_path, workload().module_json)
    content = bytearray(path.read_bytes())
    content[3] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(BlobDamaged):
        store.workloads.get(TENANT, workload().workload_id)
    assert "damaged" in store.inspection.check().problems[0]
    store.workloads.put(TENANT, workload())
    assert store.workloads.get(TENANT, workload().workload_id) == workload()


@pytest.mark.parametrize("cut", [0, 5])
def test_get_rejects_truncated_blob(store: Store, tmp_path: Path, cut: int):
    put_job(store)
    path = blob_path(tmp_path, workload().module_json)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BlobDamaged):
        store.workloads.get(TENANT, workload().workload_id)


def test_get_names_missing_blob(store: Store, tmp_path: Path):
    put_job(store)
    blob_path(tmp_path, workload().module_json).unlink()
    with pytest.raises(BlobMissing, match=workload().workload_id):
        store.workloads.get(TENANT, workload().workload_id)
    assert "missing" in store.inspection.check().problems[0]


@pytest.mark.parametrize("name", ["../../../precious.txt", "/etc/passwd", "", "a" * 63, "A" * 64, "a" * 64 + "\n"])
def test_blob_store_rejects_names_that_are_not_digests(tmp_path: Path, name: str):
    (tmp_path / "precious.txt").write_text("mine")
    blobs = BlobStore(tmp_path / "blobs")
    with pytest.raises(BlobMissing):
        blobs.get(name)
    with pytest.raises(ValueError, match="digest"):
        blobs.remove(name)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_garbage_collection_does_not_follow_symlinks(store: Store, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    precious = outside / digest("precious")
    precious.write_text("mine")
    put_job(store)
    folder = tmp_path / "blobs" / "sha256"
    (folder / "zz").symlink_to(outside)
    (folder / digest("precious")[:2]).mkdir(exist_ok=True)
    (folder / digest("precious")[:2] / digest("precious")).symlink_to(precious)
    store.garbage.collect()
    assert precious.read_text() == "mine"
    assert store.workloads.get(TENANT, workload().workload_id) == workload()


def test_blob_store_accepts_object_store_url(url: str, tmp_path: Path):
    (tmp_path / "by-url").mkdir()
    store = Store.open(url, f"file://{tmp_path}/by-url")
    put_job(store)
    assert store.workloads.get(TENANT, workload().workload_id) == workload()
    assert store.garbage.collect().kept == 1
    store.close()
