"""Detects that another process moved or reniced timed threads, or the processes they are forked from."""

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

CoresOfThreads = dict[int, tuple[frozenset[int], int, int]]
"""Cores, nice value and scheduling policy of each thread."""


@dataclass(frozen=True)
class ThreadWatch:
    """Affinity and priority of this process when its lane began; children inherit them and may only narrow them.

    Each look takes tens of microseconds.
    """

    cores: frozenset[int]
    nice: int
    policy: int

    @classmethod
    def of_this_process(cls) -> Self:
        """Record the present state of this process."""
        pid = os.getpid()
        return cls(
            frozenset(os.sched_getaffinity(pid)), os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid)
        )

    def look(self, pid: int) -> CoresOfThreads:
        """Return the present state of a process's threads; none once it is gone."""
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

    # A kernel's threads were pinned before its first call, one to a core, so only another process can have moved them.
    # 1. For each thread: another priority or policy than ours, a core that is not ours, another core than before.
    # 2. For all: the calling thread is not on its core; fewer cores than threads.
    def fault(self, pid: int, threads: int, before: CoresOfThreads | None = None) -> str:
        """Return what is wrong with the threads of a kernel with ``threads`` of them, or an empty text.

        ``before`` is their state when timing began.
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
        """Whether the state of a process that pinned nothing itself differs from the recorded one."""
        return any(state != (self.cores, self.nice, self.policy) for state in self.look(pid).values())

    def put_back(self, *pids: int) -> Self:
        """Restore the recorded state of this process and ``pids``; return the state to expect from now on.

        Cores that the system no longer allows, such as after a change of the cgroup, are not expected any longer.
        """
        own = os.getpid()
        for pid in (own, *pids):
            for thread, state in self.look(pid).items():
                if state != (self.cores, self.nice, self.policy):
                    self._restore(thread)
        cores = frozenset(os.sched_getaffinity(own))
        return self if cores == self.cores else replace(self, cores=cores)

    def _restore(self, thread: int) -> None:
        """Try each step separately, because an ordinary user may not be permitted all of them."""
        with suppress(OSError):
            os.sched_setaffinity(thread, self.cores)
        with suppress(OSError):
            os.sched_setscheduler(thread, self.policy, os.sched_param(0))
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, self.nice)


def _listed(cores: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(cores)))
