"""The linker is killed, reports a killed linker, or fails by itself."""

import sys
from pathlib import Path

import pytest

from tunefarm_workers.builder.linker import LinkFailed, link, linker_command

KILLED = "kill -9 $$"
REPORTS_KILLED = "echo 'collect2: fatal error: ld terminated with signal 9 [Killed]' >&2; exit 1"


def script(folder: Path, first: str, later: str) -> tuple[str, ...]:
    """A command that does ``first`` on its first run and ``later`` on all others, and counts its runs."""
    text = f"cd {folder}; echo run >> runs; if [ $(wc -l < runs) = 1 ]; then {first}; else {later}; fi"
    return ("/bin/sh", "-c", text)


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


@pytest.mark.parametrize("end", [KILLED, REPORTS_KILLED])
def test_killed_linker_is_run_again(tmp_path: Path, end: str) -> None:
    link(script(tmp_path, end, "exit 0"))
    assert runs(tmp_path) == 2


@pytest.mark.parametrize("end", [KILLED, REPORTS_KILLED])
def test_linker_killed_every_time_is_given_up(tmp_path: Path, end: str) -> None:
    with pytest.raises(LinkFailed, match="killed 3 times; is there enough memory"):
        link(script(tmp_path, end, end))
    assert runs(tmp_path) == 3


def test_failed_linker_is_not_run_again(tmp_path: Path) -> None:
    with pytest.raises(LinkFailed, match="undefined symbol: f"):
        link(script(tmp_path, "echo 'undefined symbol: f' >&2; exit 1", "exit 0"))
    with pytest.raises(LinkFailed, match="ended with 7"):
        link(("/bin/sh", "-c", "exit 7"))
    assert runs(tmp_path) == 1


def test_linker_command_keeps_program_and_options() -> None:
    assert linker_command((sys.executable, "-O2")) == (sys.executable, "-O2")
    assert Path(linker_command()[0]).name in {"cc", "gcc", "clang"}
    with pytest.raises(FileNotFoundError, match="no-such-linker"):
        linker_command(("no-such-linker",))
