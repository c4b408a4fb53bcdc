"""Commands that read a repository and those that change it wait for each other; readers do not."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.release.repositories import Workshop
from tests.servers.command_server import ROOT
from tunefarm.release.checking import check
from tunefarm.release.export import export
from tunefarm.release.pruning import prune
from tunefarm.release.pushing import push
from tunefarm.release.release_folder import LOCK
from tunefarm_schemas.bad_input import BadInput

_OTHER_PROCESS: Final = """
import sys
from pathlib import Path
from tests.release.repositories import Workshop
from tunefarm.release.export import export
from tunefarm.release.pruning import prune
from tunefarm.release.pushing import push
workshop, folder = Workshop(Path(sys.argv[1])), Path(sys.argv[1])
print("ready", flush=True)
{action}
"""
READERS: Final = ("export(workshop.folder, 'canary', folder / 'usb')", "next(push(workshop.folder))")
CHANGES: Final = ("prune(workshop.folder, 1)", "workshop.publish('cnn-9')")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).begin("canary")
    for number in range(3):
        workshop.publish(f"cnn-{number}")
    return workshop


@contextmanager
def another_process(workshop: Workshop, action: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is about to act."""
    command = [sys.executable, "-c", _OTHER_PROCESS.format(action=action), str(workshop.place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as other:
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == b"ready\n"
            yield other
        except BaseException:
            other.kill()  # it may wait for a lock of this process
            raise


def waits(other: "subprocess.Popen[bytes]") -> bool:
    try:
        other.wait(0.5)
    except subprocess.TimeoutExpired:
        return True
    return False


@pytest.mark.parametrize("reader", READERS, ids=["export", "push"])
def test_reader_waits_for_a_change(workshop: Workshop, reader: str) -> None:
    with ExitStack() as change:
        change.enter_context(workshop.folder.locked())
        with another_process(workshop, reader) as other:
            assert waits(other)
            change.close()
    assert other.returncode == 0


@pytest.mark.parametrize("change", CHANGES, ids=["prune", "publish"])
def test_change_waits_for_a_running_push(workshop: Workshop, change: str) -> None:
    pushing = push(workshop.folder)
    next(pushing)  # its first request is on its way
    with another_process(workshop, change) as other:
        assert waits(other)
        pushing.close()
    assert other.returncode == 0
    assert check(workshop.folder, lambda: workshop.now) == []


def test_readers_do_not_wait_for_each_other(workshop: Workshop) -> None:
    pushing = push(workshop.folder)
    next(pushing)
    assert export(workshop.folder, "canary", workshop.place / "usb")
    assert prune(workshop.folder, 1, dry_run=True).files
    with another_process(workshop, READERS[0]) as other:
        assert other.wait() == 0
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
