"""What runs on after its parent was killed."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

PR_SET_CHILD_SUBREAPER = 36
GONE_S = 2.0
"""So soon after its parent was killed nothing of it may run, on a host that does nothing else."""

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


def family_of(pid: int) -> list[psutil.Process]:
    """The process and everything below it."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []
