"""Memory and descriptors of a service's processes, by role."""

import time
from dataclasses import dataclass
from typing import Final

import psutil

_ROLES: Final = (
    ("intake_child", "intake fork server"),
    ("tunefarm_sandbox.fork_server.server", "fork server"),
    ("command_line serve", "API"),
    ("command_line tuner", "tuner"),
    ("worker start", "worker"),
    ("redis-server", "Redis"),
)


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One process at one time. Memory is resident, including shared pages."""

    at_s: float
    pid: int
    role: str
    rss_bytes: int
    descriptors: int
    threads: int


def family_of(root: psutil.Process) -> list[ProcessSample]:
    """A sample of ``root`` and each descendant. Children forked for one task have the role ``child``."""
    now_s = time.time()
    found = []
    for process in [root, *root.children(recursive=True)]:
        try:
            with process.oneshot():
                found.append(
                    ProcessSample(
                        at_s=now_s,
                        pid=process.pid,
                        role=role_of(process),
                        rss_bytes=process.memory_info().rss,
                        descriptors=process.num_fds(),
                        threads=process.num_threads(),
                    )
                )
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # a child forked for one task has exited
    return found


def role_of(process: psutil.Process) -> str:
    """The role of a process, by its command line."""
    words = " ".join(process.cmdline())
    parent = process.parent()
    if parent is not None and " ".join(parent.cmdline()) == words:
        return "child"
    return next((role for mark, role in _ROLES if mark in words), "other")
