"""Memory and descriptors of a service's processes, by role."""

import time
from dataclasses import dataclass
from typing import Final

import psutil

_ROLES: Final = (
    ("intake_child", "intake zygote"),
    ("tunefarm_sandbox.fork_server.server", "zygote"),
    ("command_line serve", "API"),
    ("command_line tuner", "tuner"),
    ("worker start", "worker"),
    ("redis-server", "Redis"),
)


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One process at one time. Memory is what is resident, shared pages included."""

    at_s: float
    pid: int
    role: str
    rss_bytes: int
    descriptors: int
    threads: int


def family_of(root: psutil.Process) -> list[ProcessSample]:
    """A sample of ``root`` and everything below it. Children forked for one task have the role ``child``."""
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
            continue  # a child that was made for one task, and is done
    return found


def role_of(process: psutil.Process) -> str:
    """The part that a process plays, by its command line."""
    words = " ".join(process.cmdline())
    parent = process.parent()
    if parent is not None and " ".join(parent.cmdline()) == words:
        return "child"
    return next((role for mark, role in _ROLES if mark in words), "other")
