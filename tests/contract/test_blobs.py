"""What the blobs of a worker keep, in a folder and in object stores."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tunefarm.server.worker_blobs import WorkerBlobs
from tunefarm_schemas.frozen import digest
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_workers.broker.blobs import Blobs, BlobsUnavailable

CONTENTS = (b"", b"content", bytes(range(256)) * 4096)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the blobs that have one."""
    made = tmp_path / "blobs"
    made.mkdir()
    return made


@pytest.fixture(params=["folder", "file", "memory"])
def blobs(request: pytest.FixtureRequest, folder: Path) -> Blobs:
    roots: dict[str, Path | str] = {"folder": folder, "file": f"file://{folder}", "memory": "memory:///"}
    return WorkerBlobs(BlobStore(roots[request.param]))


on_disk = pytest.mark.parametrize("blobs", ["folder", "file"], indirect=True)


@pytest.mark.parametrize("content", CONTENTS, ids=["empty", "short", "long"])
def test_content_is_found_by_its_digest(blobs: Blobs, content: bytes) -> None:
    assert blobs.get(digest(content)) is None
    for _ in range(2):
        assert blobs.put(content) == digest(content)
        assert blobs.get(digest(content)) == content


@pytest.mark.parametrize("name", ["", "../precious", "A" * 64, "a" * 64])
def test_unknown_name_has_no_content(blobs: Blobs, tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").write_text("mine")
    assert blobs.get(name) is None


def test_blobs_are_used_from_several_threads(blobs: Blobs) -> None:
    contents = [str(number % 8).encode() * 1000 for number in range(64)]
    with ThreadPoolExecutor(8) as threads:
        names = list(threads.map(blobs.put, contents))
        assert list(threads.map(blobs.get, names)) == contents


@on_disk
def test_damaged_content_is_missing_until_it_is_put_again(blobs: Blobs, folder: Path) -> None:
    name = blobs.put(b"content")
    (path,) = (each for each in folder.rglob(name) if each.is_file())
    path.write_bytes(b"Content")
    assert blobs.get(name) is None
    assert blobs.put(b"content") == name
    assert blobs.get(name) == b"content"


@on_disk
def test_unusable_store_is_unavailable_with_reason(blobs: Blobs, folder: Path) -> None:
    name = blobs.put(b"content")
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("not a folder")
    with pytest.raises(BlobsUnavailable, match="blob store"):
        blobs.get(name)
    with pytest.raises(BlobsUnavailable, match="blob store"):
        blobs.put(b"other")
