"""Kills processes of a running command at random instants, and looks at what is left of the job."""

import ctypes
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.acceptance.command import Ended, Tunefarm

PR_SET_CHILD_SUBREAPER = 36
ORPHANS_GONE_S = 2.0
LEASE_GONE_S = 30.0
RUN_S = 150.0
MOST_SEARCH_DEATHS = 2
"""One more and the job is given up as poisoned, by design."""

_shared: set[int] = set()


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """While entered, whatever a dead command leaves running becomes a child of this process and so is seen."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def leave_out_present() -> None:
    """Count no process that runs now among ``running_children``: services that tests of other folders share."""
    _shared.clear()
    _shared.update(child.pid for child in psutil.Process().children(recursive=True))


def running_children() -> list[psutil.Process]:
    """Living descendants of this process that the test began. Dead ones are reaped."""
    alive = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if child.pid in _shared or child.name() == "postgres":
                continue
            if child.status() != psutil.STATUS_ZOMBIE:
                alive.append(child)
            elif child.ppid() == os.getpid():
                with suppress(ChildProcessError):
                    os.waitpid(child.pid, os.WNOHANG)
    return alive


@dataclass(frozen=True)
class Trials:
    """What the database says about the trials of all explorations."""

    documents: dict[tuple[str, int, int], str]
    """What was measured, by exploration, candidate and attempt."""
    best_latency_s: dict[str, float]
    sent_again: list[tuple[str, int]]
    """Candidates sent a second time although their first attempt has a result that stands."""
    doubled_traces: int
    """Traces that were tried again although what they gave before stands."""
    search_deaths: int
    job: tuple[str, str, str | None] | None
    """Id, state and outcome of the latest job."""

    @classmethod
    def read(cls, database: Path) -> "Trials":
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
            measured = connection.execute(
                "SELECT exploration_id, candidate_number, attempt, document FROM measurements"
            ).fetchall()
            best = connection.execute("SELECT exploration_id, best_latency_s FROM explorations").fetchall()
            again = connection.execute(
                "SELECT d.exploration_id, d.candidate_number FROM dispatches d JOIN measurements m USING "
                "(tenant, exploration_id, candidate_number, purpose) WHERE d.attempt = 2 AND m.attempt = 1 AND NOT "
                "coalesce(m.failure_reason IN ('canceled', 'device_lost', 'build_timeout', 'run_timeout'), 0)"
            ).fetchall()
            doubled = connection.execute(
                "SELECT count(*) - count(DISTINCT exploration_id || trace) FROM trials WHERE NOT coalesce("
                "failure_reason IN ('canceled', 'device_lost', 'build_timeout', 'run_timeout'), 0)"
            ).fetchone()
            job = connection.execute(
                "SELECT job_id, state, outcome, search_deaths FROM jobs ORDER BY created_at DESC LIMIT 1"
            ).fetchone()
        return cls(
            documents={(row[0], row[1], row[2]): row[3] for row in measured},
            best_latency_s={row[0]: row[1] for row in best if row[1] is not None},
            sent_again=[(row[0], row[1]) for row in again],
            doubled_traces=int(doubled[0]),
            search_deaths=0 if job is None else job[3],
            job=None if job is None else (job[0], job[1], job[2]),
        )

    @property
    def unfinished_job(self) -> str | None:
        return self.job[0] if self.job is not None and self.job[1] != "finished" else None


def assert_kept(before: Trials, after: Trials) -> None:
    """Nothing committed is lost or changed, nothing is measured twice, and the best is no worse."""
    lost = {key for key, document in before.documents.items() if after.documents.get(key) != document}
    assert not lost, f"{len(lost)} measurements are lost or changed"
    assert not after.sent_again
    assert after.doubled_traces == 0
    for exploration_id, latency_s in before.best_latency_s.items():
        assert after.best_latency_s[exploration_id] <= latency_s


@dataclass
class Killer:
    """Starts a command again and again, and kills a random process of it after a random time."""

    tunefarm: Tunefarm
    command: tuple[str, ...]
    generator: random.Random
    victims: list[str] = field(default_factory=list)

    def kill(self, times: int) -> None:
        """``times`` kills, over as many jobs as that takes; the last job is brought to its end."""
        while len(self.victims) < times:
            self._one_run(times)
        while self._state().unfinished_job is not None or not self._state().best_latency_s:
            self._one_run(times)

    def _one_run(self, times: int) -> None:
        before = self._state()
        process = self._begun(before)
        while process.poll() is None and len(self.victims) < times:
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.generator.uniform(0.2, 4.0))
            if process.poll() is None:
                self._strike(process)
        ended = self.tunefarm.ended(process, RUN_S)
        self._look_at(ended, before)

    def _begun(self, before: Trials) -> "subprocess.Popen[str]":
        if before.unfinished_job is None:
            fresh = ["--fresh", "--seed", str(len(self.victims))] if before.documents else []
            return self.tunefarm.begun(*self.command, *fresh, "--json")
        return self._resumed(before.unfinished_job)

    def _resumed(self, job: str) -> "subprocess.Popen[str]":
        """The job's next run, as soon as the lease of the killed one is over."""
        deadline_s = time.monotonic() + LEASE_GONE_S
        while self._lease_left_s(job) > 0:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        return self.tunefarm.begun("tune", "--resume", job, "--json")

    def _lease_left_s(self, job: str) -> float:
        with closing(sqlite3.connect(self.tunefarm.database, timeout=30)) as connection:
            row = connection.execute("SELECT lease_expires_at FROM jobs WHERE job_id = ?", (job,)).fetchone()
        return 0.0 if row is None or row[0] is None else float(row[0]) - time.time()

    def _strike(self, process: "subprocess.Popen[str]") -> None:
        victims = self._candidates(process.pid)
        role = self.generator.choice(sorted(victims))
        victim = self.generator.choice(victims[role])
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            self.victims.append(role)

    def _candidates(self, pid: int) -> dict[str, list[int]]:
        """Processes of the command by what they are: how deep in the tree, and whether they have children."""
        found: dict[str, list[int]] = {"command": [pid]}
        with suppress(psutil.Error):
            for zygote in psutil.Process(pid).children():
                found.setdefault("zygote", []).append(zygote.pid)
                for child in zygote.children():
                    within = child.children()
                    role = "task host" if within else "search or watch"
                    found.setdefault(role, []).append(child.pid)
                    for candidate in within:
                        found.setdefault("candidate or reference", []).append(candidate.pid)
        if self._state().search_deaths >= MOST_SEARCH_DEATHS:
            found.pop("search or watch", None)
        return found

    def _look_at(self, ended: Ended, before: Trials) -> None:
        deadline_s = time.monotonic() + ORPHANS_GONE_S
        while (orphans := running_children()) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert not orphans, (self.victims[-1:], [orphan.as_dict(["pid", "cmdline", "status"]) for orphan in orphans])
        assert "Traceback" not in ended.err, (self.victims[-1:], ended.err)
        after = self._state()
        assert_kept(before, after)
        if after.job is not None and after.job[1] == "finished":
            assert after.job[2] == "succeeded", (self.victims[-3:], ended.err)
        else:
            assert ended.code != 0, (self.victims[-1:], ended.out)

    def _state(self) -> Trials:
        if not self.tunefarm.database.exists():
            self.tunefarm("db", "stats")
        return Trials.read(self.tunefarm.database)
