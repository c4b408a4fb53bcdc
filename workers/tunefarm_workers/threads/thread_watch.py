"""Notices when another process moves or renices the threads that are timed, or those that they are forked from."""

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

CoresOfThreads = dict[int, tuple[frozenset[int], int, int]]
"""By thread: the cores it may run on, its nice value, and its scheduling policy."""


@dataclass(frozen=True)
class ThreadWatch:
    """What this process could run on and how when its lane began. Its children have the same, or less that they chose.

    Each look takes some tens of microseconds.
    """

    cores: frozenset[int]
    nice: int
    policy: int

    @classmethod
    def of_this_process(cls) -> Self:
        """As the calling thread's process is now."""
        pid = os.getpid()
        return cls(
            frozenset(os.sched_getaffinity(pid)), os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid)
        )

    def look(self, pid: int) -> CoresOfThreads:
        """How the threads of a process are at present; none once it is gone."""
        found: CoresOfThreads = {}
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/task"):
                thread = int(name)
                found[thread] = (
                    frozenset(os.sched_getaffinity(thread)),
                    os.getpriority(os.PRIO_PROCESS, thread),
                    os.sched_getscheduler(thread),
                )
        return found

    # A kernel's threads were placed before its first call, one to a core, and only another process moves them. Of each
    # thread: a priority or a policy that is not ours; a core that is not ours; another core than in the beginning. Of
    # all: the calling thread on another core than it was given; fewer cores than threads.
    def fault(self, pid: int, threads: int, before: CoresOfThreads | None = None) -> str:
        """What is wrong with the threads of a kernel that takes ``threads`` of them; empty where nothing is.

        ``before`` is how they were when they began to be timed.
        """
        now = self.look(pid)
        usual = sorted(self.cores)[:threads] if len(self.cores) >= threads else []
        for thread, (cores, nice, policy) in now.items():
            if nice != self.nice or policy != self.policy:
                expected = f"instead of {self.nice} and {self.policy}"
                return f"thread {thread} has nice value {nice} and policy {policy} {expected}"
            if not cores <= self.cores:
                return f"thread {thread} was moved to cores {_listed(cores)}"
            if before is not None and thread in before and before[thread][0] != cores:
                return f"thread {thread} was moved from cores {_listed(before[thread][0])} to {_listed(cores)}"
        if usual and pid in now and now[pid][0] != {usual[0]}:
            return f"thread {pid} runs on cores {_listed(now[pid][0])} instead of {usual[0]}"
        together = frozenset[int]().union(*(cores for cores, _, _ in now.values()))
        if usual and len(now) >= threads and len(together) < threads:
            return f"{len(now)} threads share the cores {_listed(together)}"
        return ""

    def differs(self, pid: int) -> bool:
        """Whether a process that chose nothing itself is not as this one was."""
        return any(state != (self.cores, self.nice, self.policy) for state in self.look(pid).values())

    def put_back(self, *pids: int) -> Self:
        """Give this process and ``pids`` back what they had. What to expect from now on.

        Where the system itself allows fewer cores than before, nothing brings them back, and they are
        not expected any longer.
        """
        own = os.getpid()
        for pid in (own, *pids):
            for thread, state in self.look(pid).items():
                if state != (self.cores, self.nice, self.policy):
                    self._put_thread_back(thread)
        cores = frozenset(os.sched_getaffinity(own))
        return self if cores == self.cores else replace(self, cores=cores)

    def _put_thread_back(self, thread: int) -> None:
        """Each step by itself: an ordinary user may not undo all of them."""
        with suppress(OSError):
            os.sched_setaffinity(thread, self.cores)
        with suppress(OSError):
            os.sched_setscheduler(thread, self.policy, os.sched_param(0))
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, self.nice)


def _listed(cores: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(cores)))
