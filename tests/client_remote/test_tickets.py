"""Tickets: TVM deletes their folders and nothing else."""

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


def test_deleting_ticket_folder_deletes_nothing_else(tickets: Tickets, tmp_path: Path) -> None:
    (tmp_path / "another file").write_text("keep")
    first, second = Path(tickets.issue(MODULE)), Path(tickets.issue(MODULE))
    assert first.parent != second.parent
    assert [first] == list(first.parent.iterdir())
    assert first.read_bytes() == b""
    assert first.parent.stat().st_mode & 0o077 == 0

    # TVM deletes the parent folder of any path from a builder. This folder was created by the test.
    assert first.parent.parent == tmp_path
    shutil.rmtree(first.parent)

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([second.parent.name, "another file"])


def test_ticket_is_redeemed_once(tickets: Tickets) -> None:
    path = tickets.issue(MODULE)
    assert tickets.redeem(path) == MODULE
    assert tickets.redeem(path) is None


def test_unissued_path_is_not_redeemed(tickets: Tickets, tmp_path: Path) -> None:
    issued = Path(tickets.issue(MODULE))
    for path in ("/etc/passwd", str(tmp_path / "x"), str(issued.parent), str(issued) + "x", ""):
        assert tickets.redeem(path) is None


def test_remove_left_keeps_folders_with_foreign_files(tickets: Tickets, tmp_path: Path) -> None:
    left, filled = Path(tickets.issue(MODULE)), Path(tickets.issue(MODULE))
    (filled.parent / "theirs").write_text("keep")
    tickets.remove_left()
    assert not left.parent.exists()
    assert (filled.parent / "theirs").read_text() == "keep"
