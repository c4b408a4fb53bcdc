"""A device refuses what it must not run, says why, and goes on with what it runs."""

import errno
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.edge.bundles import bundle, library, scaled
from tests.edge.conftest import Device
from tests.edge.repositories import Repository
from tunefarm_edge.state.content_store import digest_of
from tunefarm_edge.state.disk import Disk
from tunefarm_edge.state.floor import read_floor, write_floor, write_time
from tunefarm_edge.trust.source import FolderSource
from tunefarm_schemas.edge.release import Release

DAY = timedelta(days=1)


def assert_refused(device: Device, failure: str, said: str, **more: object) -> None:
    outcome = device.update(**more)
    assert outcome.refused is not None
    assert outcome.refused.failure == failure, outcome.refused
    assert said in str(outcome.refused)
    assert outcome.refused.fix
    assert device.computed() == scaled(2)
    assert device.reports()[-1].body.failure == failure


def test_document_signed_by_another_key_is_refused(running: Device, repository: Repository) -> None:
    other = Repository(repository.folder.with_name("other"))
    other.version = repository.version
    other.publish(6, other.release("scale-3", bundle(3)))
    shutil.copytree(other.folder, repository.folder, dirs_exist_ok=True)
    assert_refused(running, "tampered", "was signed by 0/1 keys")


def test_changed_document_is_refused(running: Device, repository: Repository) -> None:
    repository.publish(6, repository.release("scale-3", bundle(3)))
    for path in (repository.folder / "targets/channels").iterdir():
        path.write_bytes(path.read_bytes().replace(b"scale-3", b"scale-9"))
    assert_refused(running, "tampered", "does not match")


@pytest.mark.parametrize("change", [lambda old: old[:-1] + b"x", lambda old: old + b"more"])
def test_changed_file_is_refused_and_not_kept(running: Device, repository: Repository, change) -> None:
    document = repository.publish(6, repository.release("scale-3", bundle(3, weights=b"new")))
    changed = next(each for each in document.current.variants[0].files if each.path == "weights.bin")
    path = repository.folder / "files" / changed.digest
    good = path.read_bytes()
    path.write_bytes(change(good))
    assert_refused(running, "tampered", changed.digest)
    path.write_bytes(good)
    assert running.update().running == "scale-3"


def test_expired_metadata_are_refused(running: Device, repository: Repository) -> None:
    repository.publish(6, repository.release("scale-3", bundle(3)), age=8 * DAY)
    assert_refused(running, "expired", "expired")


def test_expired_document_is_refused(running: Device, repository: Repository) -> None:
    yesterday = write_time(datetime.now(UTC) - DAY)
    repository.publish(6, repository.release("scale-3", bundle(3)), expires=yesterday)
    assert_refused(running, "expired", yesterday)


def test_expired_medium_is_accepted_within_its_maximal_age(running: Device, repository: Repository) -> None:
    repository.publish(6, repository.release("scale-3", bundle(3)), age=20 * DAY)
    assert_refused(running, "expired", "issued", max_age=15 * DAY)
    assert running.update(max_age=30 * DAY).running == "scale-3"


def test_lower_sequence_is_refused(running: Device, repository: Repository) -> None:
    repository.publish(4, repository.release("scale-1", bundle(1)))
    assert_refused(running, "downgraded", "sequence is 4, but 5 was seen")


def test_older_metadata_are_refused(running: Device, repository: Repository) -> None:
    kept = repository.folder.with_name("kept")
    shutil.copytree(repository.folder, kept)
    repository.publish(6, repository.release("scale-2", bundle(2)))
    assert running.update().refused is None
    shutil.copy(kept / "metadata/timestamp.json", repository.folder / "metadata")
    assert_refused(running, "downgraded", "version")


def test_sequence_floor_outlives_lost_metadata(running: Device, repository: Repository) -> None:
    shutil.rmtree(running.folder / "trust")
    repository.publish(4, repository.release("scale-1", bundle(1)))
    assert_refused(running, "downgraded", "sequence is 4")


def test_document_of_another_channel_is_refused(running: Device, repository: Repository) -> None:
    repository.publish(6, repository.release("scale-3", bundle(3)), channel="canary")
    assert_refused(running, "wrong_target", "of the channel canary")


@pytest.mark.parametrize(
    "wrong",
    [
        {"architecture": "wasm32"},
        {"cpu_features": ("no-such-instruction",)},
        {"runtime_abi": 2},
        {"device_class_id": "other"},
    ],
)
def test_release_without_a_variant_for_the_device_is_refused(running: Device, repository: Repository, wrong) -> None:
    repository.publish(6, repository.release("scale-3", bundle(3), **wrong))
    assert_refused(running, "wrong_target", "no variant of scale-3")


def test_bundle_for_a_newer_c_library_is_refused(running: Device, repository: Repository) -> None:
    repository.publish(6, repository.release("scale-3", bundle(3, libc="glibc 9.99")))
    assert_refused(running, "wrong_target", "needs glibc 9.99")


def test_revoked_release_is_left_at_once(running: Device, repository: Repository) -> None:
    first = repository.release("scale-2", bundle(2))
    second = repository.release("scale-3", bundle(3))
    repository.publish(6, second, previous=first)
    assert running.update().running == "scale-3"
    absent = Release(name="scale-4", model="scale", variants=second.variants[:1])
    repository.publish(
        7,
        absent.model_copy(update={"variants": (repository.variant(bundle(4), free_bytes=1 << 60),)}),
        previous=first,
        revoked=("scale-3",),
    )
    assert running.update().running == "scale-2"
    left = [each.body for each in running.reports() if each.body.kind == "install" and each.body.failure == "revoked"]
    assert [(each.release, each.rolled_back_to) for each in left] == [("scale-3", "scale-2")]


def test_device_stops_if_all_it_has_is_revoked(running: Device, repository: Repository) -> None:
    repository.publish(6, repository.release("scale-2", bundle(2)), revoked=("scale-2",))
    outcome = running.update()
    assert (outcome.running, outcome.refused and outcome.refused.failure) == (None, "revoked")


def test_release_that_does_not_fit_is_refused(running: Device, repository: Repository) -> None:
    repository.publish(6, repository.release("scale-3", bundle(3), free_bytes=1 << 60))
    assert_refused(running, "no_space", "more bytes")


class FullDisk(Disk):
    """Has no room for a file while there is one that no release uses."""

    def __init__(self, files: Path) -> None:
        self._files = files

    def replace_file(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        if any(each.stat().st_nlink == 1 for each in self._files.iterdir()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        super().replace_file(path, content, mode)


def test_full_disk_is_freed_before_the_refusal_is_written(running: Device, repository: Repository) -> None:
    repository.publish(6, repository.release("scale-3", bundle(3)))
    agent = running.agent(FullDisk(running.folder / "files"))
    outcome = agent.update(FolderSource(repository.folder))
    assert outcome.refused is not None
    assert (outcome.running, outcome.refused.failure) == ("scale-2", "no_space")
    assert running.reports()[-1].body.failure == "no_space"
    assert running.update().running == "scale-3"  # with room again


def test_what_has_arrived_stays_if_there_is_room_for_the_refusal(running: Device, repository: Repository) -> None:
    document = repository.publish(6, repository.release("scale-3", bundle(3), free_bytes=1 << 60))
    arriving = running.folder / "partial" / document.current.variants[0].manifest.digest
    arriving.write_bytes(b"{")
    assert_refused(running, "no_space", "more bytes")
    assert arriving.read_bytes() == b"{"


def test_clock_that_was_set_back_is_refused(running: Device, repository: Repository) -> None:
    root = running.root()
    later = write_time(datetime.now(UTC) + DAY)
    write_floor(root, read_floor(root).model_copy(update={"latest_time": later}))
    assert_refused(running, "clock_rolled_back", later)


def test_document_from_the_future_is_refused(running: Device, repository: Repository) -> None:
    repository.publish(6, repository.release("scale-3", bundle(3)), age=-DAY)
    assert_refused(running, "clock_rolled_back", "Set the clock")


def test_incomplete_folder_is_refused(running: Device, repository: Repository) -> None:
    document = repository.publish(6, repository.release("scale-3", bundle(3)))
    missing = next(each for each in document.current.variants[0].files if each.path == "weights.bin")
    (repository.folder / "files" / missing.digest).unlink()
    assert_refused(running, "unreachable", "is missing")
    (repository.folder / "metadata/timestamp.json").unlink()
    assert_refused(running, "unreachable", "timestamp.json")


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("files", "failure", "said"),
    [
        (lambda: bundle(3, expected=4), "self_test_failed", "times what the manifest permits"),
        (lambda: bundle(3, model=library("raise(SIGSEGV);")), "crashed", "SIGSEGV"),
        (lambda: bundle(3, model=library("_exit(0);")), "crashed", "exit status 0"),
        (lambda: bundle(3, model=library("return 7;")), "self_test_failed", "a tensor is not aligned"),
        (lambda: bundle(3, model=library(abi=2)), "load_failed", "ABI 1"),
        (lambda: bundle(3, model=library(weights_bytes=8192)), "load_failed", "shorter"),
        (lambda: bundle(3, model=b"no library"), "load_failed", "cannot be loaded"),
    ],
)
def test_release_that_fails_its_test_is_not_tried_again(
    running: Device, repository: Repository, files, failure, said
) -> None:
    release = repository.release("scale-3", files())
    repository.publish(6, release)
    assert_refused(running, failure, said)
    known = len(running.reports())
    again = running.update()
    assert (again.refused and again.refused.failure, again.running) == (failure, "scale-2")
    assert "failed here before" in str(again.refused)
    assert len(running.reports()) == known
    repository.publish(7, repository.release("scale-4", bundle(4)))
    assert running.update().running == "scale-4"


def test_failed_health_check_rolls_back(running: Device, repository: Repository) -> None:
    health = ("/bin/sh", "-c", '[ "$TUNEFARM_RELEASE" != scale-3 ]')
    running.config = running.config.model_copy(update={"health_command": health})
    repository.publish(6, repository.release("scale-3", bundle(3)))
    assert_refused(running, "health_check_failed", "ended with 1")
    assert running.reports()[-1].body.rolled_back_to == "scale-2"
    repository.publish(7, repository.release("scale-4", bundle(4)))
    assert running.update().running == "scale-4"


def test_health_check_has_a_deadline(running: Device, repository: Repository) -> None:
    health = {"health_command": ("/bin/sleep", "60"), "health_deadline_s": 0.1}
    running.config = running.config.model_copy(update=health)
    repository.publish(6, repository.release("scale-3", bundle(3)))
    assert_refused(running, "health_check_failed", "timed out")


def damage(path: Path) -> None:
    """Change a byte in place, as storage that wears out does."""
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["weights.bin", "manifest.json", "vectors/0/input0.bin"])
def test_damaged_file_of_the_current_release_is_replaced(running: Device, repository: Repository, name: str) -> None:
    damage(running.folder / "current" / name)
    outcome = running.update()
    assert (outcome.running, outcome.changed, outcome.refused) == ("scale-2", False, None)
    assert running.computed() == scaled(2)
    (running.folder / "current" / name).unlink()
    running.update()
    assert running.computed() == scaled(2)
    assert [each.body.failure for each in running.reports() if each.body.kind == "install"] == [None, None, None]
    document = repository.publish(6, repository.release("scale-2", bundle(2)))
    files = {file.path: file for file in (document.current.variants[0].manifest, *document.current.variants[0].files)}
    assert digest_of(running.folder / "current" / name) == files[name].digest


def test_damaged_release_that_cannot_be_fetched_is_reported(running: Device, repository: Repository) -> None:
    damage(running.folder / "current/vectors/0/output0.bin")
    shutil.rmtree(repository.folder / "files")
    assert_refused(running, "unreachable", "is missing")


def test_damaged_file_in_the_store_is_fetched_again(running: Device, repository: Repository) -> None:
    damage(running.folder / "current/weights.bin")
    repository.publish(6, repository.release("scale-2b", bundle(2, model=library("(void)0;"))))
    outcome = running.update()
    assert (outcome.running, outcome.refused) == ("scale-2b", None)
    assert running.computed() == scaled(2)


def test_refusal_is_reported_once_for_the_release_that_was_refused(running: Device, repository: Repository) -> None:
    document = repository.publish(6, repository.release("scale-3", bundle(3, weights=b"new")))
    changed = next(each for each in document.current.variants[0].files if each.path == "weights.bin")
    (repository.folder / "files" / changed.digest).write_bytes(b"other")
    agent = running.agent()
    for _ in range(2):
        assert agent.update(FolderSource(repository.folder)).refused is not None
    repository.publish(7, repository.release("scale-4", bundle(4), architecture="wasm32"))
    assert running.update().refused is not None
    failed = [(each.body.release, each.body.failure) for each in running.reports() if each.body.kind == "install"]
    assert failed == [("scale-2", None), ("scale-3", "unreachable"), ("scale-4", "wrong_target")]
