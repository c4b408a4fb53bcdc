"""Wherever an update is cut off, one whole release runs, and the next start finishes or undoes the update."""

import os
import shutil
import time

import pytest

from tests.edge.bundles import bundle, library, scaled
from tests.edge.conftest import Device
from tests.edge.dying import (
    DyingDisk,
    assert_whole,
    kill_after,
    random_moments,
    start,
    update,
    update_in_child,
    was_killed,
)
from tests.edge.repositories import Repository
from tunefarm_edge.state.floor import FailedRelease, read_floor
from tunefarm_edge.state.installed import InstalledReleases
from tunefarm_edge.state.journal import Journal, read_journal, write_journal
from tunefarm_schemas.edge.release import Release

EVERY = 12
"""Of the changes that an update makes, the plain suite cuts the power at each twelfth."""


def changes_of(device: Device) -> int:
    """How many changes the device's next update makes."""
    copy = copied(device, "counting")
    disk = DyingDisk()
    update(copy, disk)
    return disk.changes


def copied(device: Device, name: str) -> Device:
    folder = device.folder.with_name(name)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(device.folder, folder, symlinks=True)
    return Device(folder, device.repository, device.config)


def assert_clean(device: Device) -> None:
    root = device.root()
    assert read_journal(root) is None
    assert not list(root.staging.glob("*+*"))
    assert not list(root.partial.iterdir())


def cut_at(running: Device, changes: range, kept: float, wanted: float) -> None:
    for at in changes:
        device = copied(running, "cut")
        assert update_in_child(device, at), f"the update makes no change number {at}"
        assert_whole(device, kept, wanted)
        device.agent()  # recovers
        assert_whole(device, kept, wanted)
        device.update()
        assert device.computed() == scaled(wanted), at
        assert_clean(device)


def next_release(repository: Repository) -> Release:
    return repository.release("scale-3", bundle(3, weights=os.urandom(2000)))


def test_power_cuts_leave_a_whole_release(running: Device, repository: Repository) -> None:
    repository.publish(6, next_release(repository))
    changes = changes_of(running)
    assert changes > 40
    cut_at(running, range(0, changes, EVERY), 2, 3)


@pytest.mark.faults
def test_power_cut_at_each_change_leaves_a_whole_release(running: Device, repository: Repository) -> None:
    repository.publish(6, next_release(repository))
    cut_at(running, range(changes_of(running)), 2, 3)


@pytest.mark.faults
def test_power_cuts_while_going_back_leave_the_old_release(running: Device, repository: Repository) -> None:
    running.config = running.config.model_copy(update={"health_command": ("/bin/false",)})
    repository.publish(6, repository.release("scale-3", bundle(3)))
    changes = changes_of(running)
    for at in range(changes - 24, changes):
        device = copied(running, "cut")
        assert update_in_child(device, at)
        assert_whole(device, 2, 3)
        device.update()
        assert device.computed() == scaled(2), at
        assert_clean(device)


@pytest.mark.faults
def test_power_cuts_during_the_first_installation(device: Device, repository: Repository) -> None:
    repository.publish(6, repository.release("scale-3", bundle(3)))
    for at in range(0, changes_of(device), EVERY * 2):
        cut = copied(device, "cut")
        assert update_in_child(cut, at)
        assert cut.update().running == "scale-3"
        assert cut.computed() == scaled(3)
        assert_clean(cut)


def test_release_whose_trial_stops_the_device_is_given_up(running: Device, repository: Repository) -> None:
    """Its test kills whatever started it, as a release would that makes the machine restart."""
    killing = library("kill(getppid(), SIGKILL);")
    repository.publish(6, repository.release("scale-3", bundle(3, model=killing)))
    assert [was_killed(start(running)) for _ in range(4)] == [True, True, True, False]
    floor = read_floor(running.root())
    assert floor.failed is not None
    assert (floor.failed.release, floor.failed.failure) == ("scale-3", "crashed")
    assert running.computed() == scaled(2)


def test_interruptions_of_one_release_do_not_count_for_another(running: Device) -> None:
    came_from = InstalledReleases(running.root()).current

    def cut_while_trying(name: str) -> FailedRelease | None:
        journal = Journal(step="testing", release=name, sequence=6, folder=f"{name}+0", came_from=came_from)
        write_journal(running.root(), journal)
        running.agent()
        return read_floor(running.root()).failed

    failed = [cut_while_trying(name) for name in ("scale-3", "scale-3", "scale-4", "scale-4", "scale-4")]
    assert failed[:4] == [None] * 4
    assert failed[4] is not None
    assert (failed[4].release, failed[4].failure) == ("scale-4", "crashed")
    assert running.computed() == scaled(2)


def test_interrupted_download_goes_on_where_it_stopped(running: Device, repository: Repository) -> None:
    document = repository.publish(6, next_release(repository))
    weights = next(each for each in document.current.variants[0].files if each.path == "weights.bin")
    partial = running.folder / "partial" / weights.digest
    source = repository.folder / "files" / weights.digest
    partial.write_bytes(source.read_bytes()[:1000])
    before = partial.stat().st_ino
    assert running.update().running == "scale-3"
    assert (running.folder / "files" / weights.digest).stat().st_ino == before


def test_second_agent_is_kept_out(running: Device) -> None:
    with running.root().locked(), pytest.raises(Exception, match="another agent uses"), running.root().locked():
        pass


@pytest.mark.faults
def test_killed_at_random_instants(running: Device, repository: Repository) -> None:
    """One device through a thousand kills: it always runs one whole release, and reaches the last one."""
    began_s = time.monotonic()
    repository.publish(6, next_release(repository))
    update(copied(running, "timing"), DyingDisk())
    within_s = (time.monotonic() - began_s) * 1.2
    killed, sequence = 0, 6

    def publish_next() -> None:
        nonlocal sequence
        sequence += 1
        repository.publish(sequence, repository.release(f"scale-{sequence - 3}", bundle(sequence - 3)))

    for seconds in random_moments(1_000, within_s):
        killed += kill_after(running, seconds)
        if f"scale-{sequence - 3}" in (running.agent().running, given_up(running)):
            publish_next()
        assert_whole(running, *range(2, sequence))
    assert killed > 200
    publish_next()
    running.update()
    assert running.computed() == scaled(sequence - 3)
    assert_clean(running)


def given_up(device: Device) -> str | None:
    """The release whose trial was killed so often that it seems to be the cause."""
    failed = read_floor(device.root()).failed
    assert failed is None or failed.failure == "crashed"
    return failed and failed.release
