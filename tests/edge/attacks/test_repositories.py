"""Repositories that an attacker without keys changed, delayed or mixed are refused before a library is loaded."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zstandard

from tests.edge.attacks.conftest import Field
from tests.edge.bundles import bundle
from tests.edge.conftest import Device
from tests.edge.repositories import Repository
from tunefarm.release.publishing import publish, revoke
from tunefarm_edge.update.fetching import MIN_WINDOW_BYTES, patched_pieces
from tunefarm_schemas.edge.release import ChannelDocument, FileDelta
from tunefarm_schemas.frozen import digest

TOMORROW = datetime.now(UTC) + timedelta(days=1)


def test_release_is_loaded_once_it_is_verified(field: Field) -> None:
    field.publish("scale-3", 3)
    field.require_installed("scale-3", 3)


def test_older_repository_is_refused(field: Field) -> None:
    old = field.saved()
    field.publish("scale-3", 3)
    field.require_installed("scale-3", 3)
    field.loaded.unlink()
    shutil.rmtree(field.folder)
    old.rename(field.folder)
    outcome = field.device.update()
    assert outcome.refused is not None
    assert outcome.refused.failure == "downgraded"
    assert not field.loaded.exists()
    assert outcome.running == "scale-3"


def test_frozen_repository_is_refused_once_its_timestamp_expires(field: Field) -> None:
    field.workshop.now -= timedelta(days=3)
    field.publish("scale-3", 3)
    field.require_refused("expired", "timestamp")


@pytest.mark.parametrize("role", ["snapshot", "targets", "channel-stable"])
def test_metadata_of_two_versions_are_not_mixed(field: Field, role: str) -> None:
    metadata = field.folder / "metadata"
    field.publish("scale-3", 3)
    newest = max(metadata.glob(f"*.{role}.json"), key=lambda path: int(path.name.split(".")[0]))
    number = int(newest.name.split(".")[0])
    before = metadata / f"{number - 1}.{role}.json"
    if role == "targets":
        # The channel's publications leave it as it is; its hash in the snapshot is what protects it.
        newest.write_bytes(newest.read_bytes().replace(b'"version": 2', b'"version": 1'))
        field.commit(lambda _state: None, "targets")
        newest = metadata / f"{number + 1}.{role}.json"
        before = metadata / f"{number}.{role}.json"
    newest.write_bytes(before.read_bytes())
    field.require_refused("tampered")


def test_swapped_files_are_refused(field: Field) -> None:
    document = field.publish("scale-3", 3)
    by_path = {file.path: field.folder / "files" / file.digest for file in document.current.variants[0].files}
    one, other = by_path["vectors/0/input0.bin"], by_path["vectors/0/output0.bin"]
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    field.require_refused("tampered", "other content")


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", ["../../loaded", "/etc/passwd", "vectors/../../x", "a\\..\\b", ".hidden", "x\0y"])
def test_path_that_leaves_its_folder_is_refused(running: Device, repository: Repository, name: str) -> None:
    document = repository.publish(6, repository.release("scale-3", {"manifest.json": b"{}", "model.so": b"x"}))
    text = json.loads(document.model_dump_json())
    text["current"]["variants"][0]["files"][0]["path"] = name
    repository.publish_bytes(json.dumps(text).encode(), TOMORROW)
    before = sorted(running.folder.parent.rglob("*"))
    refused = running.update().refused
    assert refused is not None
    assert (refused.failure, "path" in refused.problem) == ("wrong_target", True)
    new = set(running.folder.parent.rglob("*")) - set(before)
    assert all(path.is_relative_to(running.folder) for path in new), new


def test_digest_that_is_a_path_is_refused(running: Device, repository: Repository) -> None:
    document = repository.publish(6, repository.release("scale-3", {"manifest.json": b"{}", "model.so": b"x"}))
    text = document.model_dump_json().replace(document.current.variants[0].files[0].digest, "../../../etc/passwd")
    repository.publish_bytes(text.encode(), TOMORROW)
    refused = running.update().refused
    assert refused is not None
    assert refused.failure == "wrong_target"


def test_link_on_a_medium_is_not_followed(field: Field, tmp_path: Path) -> None:
    document = field.publish("scale-3", 3)
    model = next(file for file in document.current.variants[0].files if file.path == "model.so")
    place, outside = field.folder / "files" / model.digest, tmp_path / "outside"
    place.rename(outside)
    place.symlink_to(outside)
    field.require_refused("unreachable", "is missing")
    place.unlink()
    place.symlink_to("/dev/zero")
    field.require_refused("unreachable", "is missing")
    timestamp = field.folder / "metadata" / "timestamp.json"
    timestamp.rename(tmp_path / "timestamp.json")
    timestamp.symlink_to(tmp_path / "timestamp.json")
    field.require_refused("unreachable", "timestamp.json")


def test_release_of_another_device_class_is_refused(field: Field) -> None:
    field.publish("scale-3", 3, device_class_id="another")
    field.require_refused("wrong_target", "no variant")


def test_revoked_release_is_not_loaded(field: Field) -> None:
    field.publish("scale-3", 3)
    revoke(field.workshop.signing(), "scale-3")
    outcome = field.device.update()
    assert (outcome.refused, outcome.running, field.loaded.exists()) == (None, "scale-2", False)


def _with_patch(field: Field) -> ChannelDocument:
    said = f'close(open("{field.loaded}", O_CREAT | O_WRONLY, 0600));'
    new = field.bundle("scale-3", 3, said)
    old = field.workshop.place / "scale-2"
    return publish(field.workshop.signing(), [new], channel="stable", name="scale-3", from_bundles=[old])


def test_changed_patch_is_refused(field: Field) -> None:
    document = _with_patch(field)
    deltas = document.current.variants[0].deltas
    assert deltas
    for delta in deltas:
        path = field.folder / "files" / delta.patch_digest
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
    field.require_refused("tampered")


def test_patch_that_makes_another_file_is_refused(running: Device, repository: Repository) -> None:
    old, new = bundle(2), bundle(3, weights=b"new")
    wrong = repository.delta(old["weights.bin"], bundle(4)["weights.bin"])
    named = wrong.model_copy(update={"to_digest": digest(new["weights.bin"])})
    repository.publish(6, repository.release("scale-3", new, deltas=[named]))
    refused = running.update().refused
    assert refused is not None
    assert refused.failure == "tampered"


def test_patch_that_expands_without_end_is_cut(running: Device, repository: Repository) -> None:
    old, new = bundle(2), bundle(3, weights=b"new")
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(64 << 20))
    assert len(bomb) < 4096
    named = FileDelta(
        from_digest=digest(old["weights.bin"]),
        to_digest=digest(new["weights.bin"]),
        patch_digest=repository.store(bomb),
        patch_bytes=len(bomb),
    )
    repository.publish(6, repository.release("scale-3", new, deltas=[named]))
    refused = running.update().refused
    assert refused is not None
    assert refused.failure == "tampered"
    assert not list((running.folder / "partial").iterdir())


def test_patch_takes_no_more_memory_than_its_file(tmp_path: Path) -> None:
    greedy = zstandard.ZstdCompressionParameters(window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=greedy).compressobj()
    patch = tmp_path / "patch"
    patch.write_bytes(compressor.compress(bytes(1000)) + compressor.flush())
    with pytest.raises(zstandard.ZstdError):
        list(patched_pieces(b"old", patch, MIN_WINDOW_BYTES))


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("bomb", "failure"),
    [
        (b"[" * 16_000, "tampered"),
        (b'{"a":' * 3_000, "tampered"),
        (b"0" * (1 << 20), "tampered"),
        (b'{"signatures": [], "signed": ' + b"9" * 10_000 + b"}", "tampered"),
        (b"\xff\xfe" * 100, "tampered"),
        (b"", "tampered"),
    ],
)
def test_metadata_that_burst_their_reader_are_refused(field: Field, bomb: bytes, failure: str) -> None:
    field.publish("scale-3", 3)
    (field.folder / "metadata" / "timestamp.json").write_bytes(bomb)
    field.require_refused(failure)


def test_document_that_bursts_its_reader_is_refused(running: Device, repository: Repository) -> None:
    for text in (b"[" * 100_000, b'{"channel": "stable", "sequence": ' + b"9" * 5_000 + b"}", b" " * (5 << 20)):
        repository.publish_bytes(text, TOMORROW)
        refused = running.update().refused
        assert refused is not None
        assert refused.failure in ("wrong_target", "tampered")
