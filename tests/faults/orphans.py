"""Processes that run on after their parent was killed."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

PR_SET_CHILD_SUBREAPER = 36
GONE_S = 60.0
"""A process that still runs so long after its parent was killed will not end."""

_shared: set[int] = set()


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Adopt the orphans of dead commands as children of this process, so that they are found."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def ignore_present() -> None:
    """Exclude all present processes from ``running_children``: services that tests of other folders share."""
    _shared.clear()
    _shared.update(child.pid for child in psutil.Process().children(recursive=True))


def running_children() -> list[psutil.Process]:
    """Living descendants of this process that the test started. Dead ones are reaped."""
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
    """The process and all its descendants."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []
