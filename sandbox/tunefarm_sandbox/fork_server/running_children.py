"""The children of a fork server, from the fork until they are reaped."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from tunefarm_sandbox.fork_server.fork_request import EXIT_STATUS
from tunefarm_sandbox.fork_server.status_socket import answer


@dataclass(frozen=True)
class _Running:
    pid: int
    status: int
    may_fork: bool


class RunningChildren:
    """Tracks every child, reports its end to the parent, and kills all processes that it leaves behind."""

    def __init__(self) -> None:
        self._by_pidfd: dict[int, _Running] = {}
        self.may_have_strays = False

    def add(self, pid: int, pidfd: int, status: int, *, may_fork: bool) -> None:
        """Take over a child and its descriptors."""
        self._by_pidfd[pidfd] = _Running(pid, status, may_fork)

    def pidfds(self) -> set[int]:
        """Descriptors that become readable when a child ends."""
        return set(self._by_pidfd)

    def reap(self, pidfd: int) -> None:
        """Reap the child that ended, kill its process group, and report its end."""
        child = self._by_pidfd.pop(pidfd)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)  # before the wait, which allows the kernel to reuse the number
        _, status, usage = os.wait4(child.pid, 0)
        answer(child.status, EXIT_STATUS.pack(status, usage.ru_maxrss * 1024))
        os.close(child.status)
        os.close(pidfd)
        self.may_have_strays |= child.may_fork

    def end_strays(self) -> None:
        """Kill and reap orphans of children that may fork; as subreaper, this process has adopted them."""
        if not self.may_have_strays:
            return
        known = {child.pid for child in self._by_pidfd.values()}
        strays = _children_of_this_process() - known
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self.may_have_strays = bool(strays)

    def end_all(self) -> None:
        """Kill every child and wait until each is gone."""
        for child in self._by_pidfd.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child.pid, signal.SIGKILL)
        for pidfd in list(self._by_pidfd):
            self.reap(pidfd)
        while self.may_have_strays:
            self.end_strays()


def _children_of_this_process() -> set[int]:
    own = os.getpid()
    try:
        return {int(pid) for pid in Path(f"/proc/self/task/{own}/children").read_text().split()}
    except OSError:
        return set()
