"""The command in a terminal, under a shell with job control."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pexpect
import pytest

from tests.acceptance.command import COMMAND, HANG_S, Tunefarm
from tests.quiet_records import as_on_a_quiet_host

PROMPT = "ready> "
TRIALS = 100_000
"""Enough trials that the search still runs when it is interrupted, even on a host that delays this process."""


@pytest.fixture
def shell(tunefarm: Tunefarm) -> "Iterator[pexpect.spawn[str]]":
    """An interactive bash on its own pseudo-terminal."""
    environment = {**tunefarm.environment, "PS1": PROMPT, "TERM": "xterm", "INPUTRC": "/dev/null"}
    process = pexpect.spawn(
        "/bin/bash",
        ["--norc", "--noprofile", "-i"],
        env=environment,
        timeout=HANG_S,
        encoding="utf-8",
        dimensions=(40, 200),
    )
    process.expect_exact(PROMPT)
    process.sendline("bind 'set enable-bracketed-paste off' 2>/dev/null")
    process.expect_exact(PROMPT)
    yield process
    process.close(force=True)


def state_of(pid: int) -> str:
    """The state of a process in /proc: R, S, D, or T for stopped; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def states_until(shell: "pexpect.spawn[str]", pid: int, reached: Callable[[], bool], timeout_s: float) -> set[str]:
    """All observed states of the process. Reads its output meanwhile, like a terminal."""
    seen = set()
    deadline_s = time.monotonic() + timeout_s
    while not reached():
        assert time.monotonic() < deadline_s, shell.before
        seen.add(state_of(pid))
        with suppress(pexpect.TIMEOUT):
            shell.read_nonblocking(size=65536, timeout=0.01)
    return seen


def measured(tunefarm: Tunefarm) -> int:
    with closing(sqlite3.connect(tunefarm.database, timeout=30)) as database:
        return int(database.execute("SELECT count(*) FROM measurements").fetchone()[0])


@pytest.mark.faults
def test_ctrl_c_builds_best_and_restores_terminal(
    tunefarm: Tunefarm, shell: "pexpect.spawn[str]", tmp_path: Path
) -> None:
    assert tunefarm("db", "stats").code == 0
    # The subshell tells its own number and then becomes the command.
    program = ["builtin:softmax:8x16", "--target", "host:1"]
    words = [*COMMAND, "tune", *program, "--trials", str(TRIALS), "--strategy", "random"]
    shell.sendline(f"(echo $BASHPID > pid; exec {' '.join(words)})".replace("> pid", f"> {tmp_path / 'pid'}"))
    pid_file = tmp_path / "pid"
    states_until(shell, 0, lambda: pid_file.exists() and pid_file.read_text().endswith("\n"), timeout_s=60)
    pid = int(pid_file.read_text())
    seen = states_until(shell, pid, lambda: measured(tunefarm) >= 6, timeout_s=HANG_S)
    assert seen <= {"R", "S", "D"}
    shell.sendintr()
    shell.expect("ending the search")
    shell.expect("stopped +finished on request")
    shell.expect(r"record +(\w+)")
    record = shell.match.group(1)
    shell.expect_exact(PROMPT)
    shell.sendline("echo status=$? stopped=[$(jobs -s)] running=[$(jobs -r)]")
    shell.expect(r"status=(\d+) stopped=\[\] running=\[\]")
    assert shell.match.group(1) == "0"
    assert state_of(pid) == ""

    # The shell still owns the terminal: it reads a line and echoes it.
    shell.expect_exact(PROMPT)
    shell.sendline("stty -a | tr ' ' '\\n' | grep -x -e isig -e icanon -e echo | wc -l")
    shell.expect(r"\b3\b")

    kept = measured(tunefarm)
    assert kept >= 6
    verified = tunefarm("records", "list", "--status", "verified", "--json").json()
    assert record in {each["record_id"] for each in verified}
    as_on_a_quiet_host(tunefarm.home)
    summary = tunefarm.tune(*program, "--trials", "6", "--strategy", "random")
    assert summary["outcome"] == "succeeded"
    task = summary["tasks"][0]
    assert task["answered_from_store"], "the job is finished early, and its trials are kept"
    assert (task["trials"], task["record_id"]) == (0, record)
    assert task["trials_in_store"] >= 6
    assert measured(tunefarm) == kept
