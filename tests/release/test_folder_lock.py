"""Commands that read a repository and those that change it wait for each other; readers do not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.other_process import OtherProcess
from tests.release.repositories import Workshop
from tunefarm.release.checking import check
from tunefarm.release.export import export
from tunefarm.release.pruning import prune
from tunefarm.release.pushing import push
from tunefarm.release.release_folder import LOCK
from tunefarm_schemas.bad_input import BadInput

Action = Callable[[Workshop], object]
READERS: Final[tuple[Action, ...]] = (
    lambda workshop: export(workshop.folder, "canary", workshop.place / "usb"),
    lambda workshop: next(push(workshop.folder)),
)
CHANGES: Final[tuple[Action, ...]] = (
    lambda workshop: prune(workshop.folder, 1),
    lambda workshop: workshop.publish("cnn-9"),
)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).begin("canary")
    for number in range(3):
        workshop.publish(f"cnn-{number}")
    return workshop


@contextmanager
def another_process(workshop: Workshop, action: Action) -> Iterator[OtherProcess]:
    """A process for ``action``, forked before this one holds a lock, which it would share."""
    other = OtherProcess(lambda: action(Workshop(workshop.place)))
    try:
        yield other
    finally:
        other.kill()  # it may wait for a lock of this process


@pytest.mark.parametrize("reader", READERS, ids=["export", "push"])
def test_reader_waits_for_a_change(workshop: Workshop, reader: Action) -> None:
    with another_process(workshop, reader) as other:
        with workshop.folder.locked():
            other.begin()
            assert other.waits()
        assert other.exit_status() == 0


@pytest.mark.parametrize("change", CHANGES, ids=["prune", "publish"])
def test_change_waits_for_a_running_push(workshop: Workshop, change: Action) -> None:
    with another_process(workshop, change) as other:
        pushing = push(workshop.folder)
        next(pushing)  # its first request is on its way
        other.begin()
        assert other.waits()
        pushing.close()
        assert other.exit_status() == 0
    assert check(workshop.folder, lambda: workshop.now) == []


def test_readers_do_not_wait_for_each_other(workshop: Workshop) -> None:
    with another_process(workshop, READERS[0]) as other:
        pushing = push(workshop.folder)
        next(pushing)
        assert export(workshop.folder, "canary", workshop.place / "usb")
        assert prune(workshop.folder, 1, dry_run=True).files
        other.begin()
        assert other.exit_status() == 0
        pushing.close()


def test_export_fails_without_keeping_the_lock(workshop: Workshop) -> None:
    with pytest.raises(BadInput, match="no channel"):
        export(workshop.folder, "beta", workshop.place / "usb")
    with workshop.folder.locked():
        pass


def test_folder_without_a_lock_file_is_read(workshop: Workshop) -> None:
    (workshop.folder.path / LOCK).unlink()
    assert export(workshop.folder, "canary", workshop.place / "usb")


def test_link_in_the_place_of_the_lock_is_refused(workshop: Workshop) -> None:
    lock = workshop.folder.path / LOCK
    lock.unlink()
    lock.symlink_to(workshop.place / "elsewhere")
    with pytest.raises(BadInput, match="cannot be opened"):
        export(workshop.folder, "canary", workshop.place / "usb")
    assert not (workshop.place / "elsewhere").exists()
