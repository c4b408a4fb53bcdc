"""Kills processes of a running command at random moments, and checks what remains of the job."""

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from tests.acceptance.command import HANG_S, Ended, Tunefarm
from tests.faults.orphans import GONE_S, running_children
from tests.faults.trials import Trials, assert_kept

RUN_S = HANG_S
MAX_SEARCH_DEATHS = 2
"""One more, and the job is given up as poisoned, by design."""
MAX_CHILD_KILLS = 2
"""Of a schedule that is verified: one more, and its job ends without it, by design."""
EARLIER_RECORD = "The record of an earlier search remains valid"
OF_CANDIDATE = "candidate or reference"
OF_CHILDREN = frozenset({OF_CANDIDATE, "search or watch", "fork server"})
"""Roles of processes that may run the schedule that is verified, which is a child of a fork server without children."""


@dataclass
class Killer:
    """Starts a command repeatedly, and kills a random process of it after a random time.

    A job resumes at once: its next owner sees that the previous one is dead, and does not wait for the lease to expire.
    """

    tunefarm: Tunefarm
    command: tuple[str, ...]
    generator: random.Random
    victims: list[str] = field(default_factory=list)

    def kill(self, times: int) -> None:
        """Kill ``times`` processes over as many jobs as needed, and finish the last job."""
        while len(self.victims) < times:
            self._one_run(times)
        while self._state().unfinished_job is not None or not self._state().best_latency_s:
            self._one_run(times)

    def _one_run(self, times: int) -> None:
        before, killed_before = self._state(), len(self.victims)
        process = self._start_command(before)
        while process.poll() is None and len(self.victims) < times:
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.generator.uniform(0.2, 4.0))
            if process.poll() is None:
                self._kill_one(process)
        ended = self.tunefarm.ended(process, RUN_S)
        self._look_at(ended, before, self.victims[killed_before:])

    def _start_command(self, before: Trials) -> "subprocess.Popen[str]":
        if before.unfinished_job is None:
            fresh = ["--fresh", "--seed", str(len(self.victims))] if before.documents else []
            return self.tunefarm.start(*self.command, *fresh, "--json")
        return self.tunefarm.start("tune", "--resume", before.unfinished_job, "--json")

    def _kill_one(self, process: "subprocess.Popen[str]") -> None:
        victims = self._candidates(process.pid)
        role = self.generator.choice(sorted(victims))
        victim = self.generator.choice(victims[role])
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            self.victims.append(role)

    def _candidates(self, pid: int) -> dict[str, list[int]]:
        """Processes of the command by role: their depth in the tree, and whether they have children."""
        found: dict[str, list[int]] = {"command": [pid]}
        with suppress(psutil.Error):
            for fork_server in psutil.Process(pid).children():
                found.setdefault("fork server", []).append(fork_server.pid)
                for child in fork_server.children():
                    within = child.children()
                    role = "task process" if within else "search or watch"
                    found.setdefault(role, []).append(child.pid)
                    for candidate in within:
                        found.setdefault(OF_CANDIDATE, []).append(candidate.pid)
        if self._state().search_deaths >= MAX_SEARCH_DEATHS:
            found.pop("search or watch", None)
        return found

    def _look_at(self, ended: Ended, before: Trials, victims: list[str]) -> None:
        """Check a command that ended; ``victims`` are its processes that were killed."""
        deadline_s = time.monotonic() + GONE_S
        while (orphans := running_children()) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert not orphans, (self.victims[-1:], [orphan.as_dict(["pid", "cmdline", "status"]) for orphan in orphans])
        assert "Traceback" not in ended.err, (self.victims[-1:], ended.err)
        after = self._state()
        assert_kept(before, after)
        if sum(each in OF_CHILDREN for each in victims) > MAX_CHILD_KILLS and "was killed by SIGKILL" in ended.err:
            # An earlier run of the job may have written a record before it was killed; the job has that then.
            assert ended.code != 0 or EARLIER_RECORD in ended.out, (victims, ended.out)
        elif after.job is not None and after.job != before.job and after.job[1] == "finished":
            assert after.job[2] == "succeeded", (victims, ended.err)
        else:
            assert ended.code != 0, (self.victims[-1:], ended.out)

    def _state(self) -> Trials:
        if not self.tunefarm.database.exists():
            self.tunefarm("db", "stats")
        return Trials.read(self.tunefarm.database)
