"""A pruned repository is what devices accept, holds what they may return to, and nothing else that is ours."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.other_process import OtherProcess
from tests.release.repositories import Workshop
from tunefarm.release.bundle_variant import read_bundle
from tunefarm.release.checking import check, files_of
from tunefarm.release.export import export
from tunefarm.release.pruning import prune
from tunefarm.release.publishing import promote, publish, roll_back
from tunefarm.release.rotation import rotate


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).begin("canary", "stable")
    workshop.publish("cnn-0", "stable")
    (old,) = workshop.folder.state().root.signed.roles["timestamp"].keyids
    rotate(workshop.signing(), "online", [old], [workshop.key("online2")])
    for number in range(1, 6):
        workshop.publish(f"cnn-{number}")
    return workshop


def names(workshop: Workshop, folder: str) -> set[str]:
    return {path.name for path in (workshop.folder.path / folder).iterdir()}


def test_pruned_repository_verifies_and_goes_on(workshop: Workshop, tmp_path: Path) -> None:
    before = names(workshop, "metadata")
    done = prune(workshop.folder, 2)
    assert done.metadata
    assert done.files
    assert done.freed_bytes
    assert {"1.root.json", "2.root.json"} <= names(workshop, "metadata") < before
    assert check(workshop.folder, lambda: workshop.now) == []
    assert prune(workshop.folder, 2).files == 0
    returned = roll_back(workshop.signing(), "canary")
    assert returned.current.name == "cnn-4"
    assert promote(workshop.signing(), "canary", "stable").current.name == "cnn-4"
    assert export(workshop.folder, "stable", tmp_path / "usb")
    assert check(workshop.folder, lambda: workshop.now) == []


def test_channel_that_was_published_long_ago_stays_whole(workshop: Workshop, tmp_path: Path) -> None:
    prune(workshop.folder, 1)
    assert export(workshop.folder, "stable", tmp_path / "usb")
    assert check(workshop.folder, lambda: workshop.now) == []


def test_files_of_kept_snapshots_stay(workshop: Workshop) -> None:
    sixth = workshop.publish("cnn-6")
    seventh = workshop.publish("cnn-7")
    prune(workshop.folder, 2)
    kept = {file.digest for document in (sixth, seventh) for file in files_of(document)}
    assert kept <= names(workshop, "files")


def test_dry_run_removes_nothing(workshop: Workshop) -> None:
    before = sorted(workshop.folder.path.rglob("*"))
    assert prune(workshop.folder, 1, dry_run=True).files
    assert sorted(workshop.folder.path.rglob("*")) == before


@pytest.mark.parametrize(
    "change",
    [lambda workshop: prune(workshop.folder, 1), lambda workshop: workshop.publish("cnn-7", "stable")],
    ids=["prune", "publish"],
)
def test_change_waits_for_that_of_another_process(
    workshop: Workshop, tmp_path: Path, change: Callable[[Workshop], object]
) -> None:
    sixth = workshop.bundle("cnn-6")
    other = OtherProcess(lambda: change(Workshop(tmp_path)))
    try:
        with workshop.folder.locked():
            for digest, source in read_bundle(sixth, None).sources.items():
                workshop.folder.add_file(source, digest)
            other.begin()
            assert other.waits()
            publish.__wrapped__(workshop.signing(), [sixth], channel="canary", name="cnn-6")
        assert other.exit_status() == 0
    finally:
        other.kill()
    assert check(workshop.folder, lambda: workshop.now) == []


def test_foreign_files_and_links_are_left(workshop: Workshop, tmp_path: Path) -> None:
    folder, outside = workshop.folder.path, tmp_path / "outside"
    outside.write_bytes(b"mine")
    (folder / "files" / "notes.txt").write_bytes(b"mine")
    (folder / "files" / ("0" * 64)).symlink_to(outside)
    left, fresh = folder / "files" / ".a.12345678.new", folder / "files" / ".b.12345678.new"
    for path in (left, fresh):
        path.write_bytes(b"half")
    os.utime(left, (time.time() - 90_000, time.time() - 90_000))
    prune(workshop.folder, 1)
    assert outside.read_bytes() == b"mine"
    assert {"notes.txt", "0" * 64, fresh.name} <= names(workshop, "files")
    assert not left.exists()
    assert (folder / "keys.json").is_file()
