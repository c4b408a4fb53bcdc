"""Tickets in place of paths: TVM removes their folders, and nothing else."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tunefarm.remote.tickets import ScheduledModule, Tickets

MODULE = ScheduledModule(module_json="{}", target="{}")


@pytest.fixture
def tickets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tickets]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    issued = Tickets()
    yield issued
    issued.remove_left()


def test_removing_the_folder_of_a_ticket_removes_that_and_nothing_else(tickets: Tickets, tmp_path: Path) -> None:
    (tmp_path / "somebody's file").write_text("keep")
    first, second = Path(tickets.issue(MODULE)), Path(tickets.issue(MODULE))
    assert first.parent != second.parent
    assert [first] == list(first.parent.iterdir())
    assert first.read_bytes() == b""
    assert first.parent.stat().st_mode & 0o077 == 0

    # What TVM does with the path that a builder returned, whatever it is: this folder is ours and was made just now.
    assert first.parent.parent == tmp_path
    shutil.rmtree(first.parent)

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([second.parent.name, "somebody's file"])


def test_a_ticket_stands_for_its_module_once(tickets: Tickets) -> None:
    path = tickets.issue(MODULE)
    assert tickets.redeem(path) == MODULE
    assert tickets.redeem(path) is None


def test_a_path_that_was_never_issued_means_nothing(tickets: Tickets, tmp_path: Path) -> None:
    issued = Path(tickets.issue(MODULE))
    for path in ("/etc/passwd", str(tmp_path / "x"), str(issued.parent), str(issued) + "x", ""):
        assert tickets.redeem(path) is None


def test_what_nobody_removed_is_removed_at_the_end_unless_somebody_put_something_there(
    tickets: Tickets, tmp_path: Path
) -> None:
    left, filled = Path(tickets.issue(MODULE)), Path(tickets.issue(MODULE))
    (filled.parent / "theirs").write_text("keep")
    tickets.remove_left()
    assert not left.parent.exists()
    assert (filled.parent / "theirs").read_text() == "keep"
