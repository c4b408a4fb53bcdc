"""Resource limits of a child."""

import os
import resource

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.host_cores import machine_processors

THREAD_RESERVATION_BYTES = 72 << 20
"""Address space that a thread reserves without using it: an allocator arena and a stack."""

_TASKS_BESIDE = 1024
"""How many threads and processes the children of one user may start in addition to all that run at the fork."""
_CHILDREN_AT_THEIR_LIMIT = 4


class Limits(Frozen):
    """Limits of one child; None inherits the parent's. A limit can only be tighter than the parent's.

    ``memory_bytes`` is private memory that the child may add to the inherited memory; allocations beyond it fail.
    ``children_memory_bytes`` is what a child that forks others may let each of them add, if that is more.
    ``cpu_s`` is rounded up to whole seconds: the kernel sends SIGXCPU at the limit and SIGKILL a second later.
    ``file_size_bytes`` bounds every file it writes; ``open_files`` its descriptors; ``core_bytes`` its core dump.
    ``niceness`` is added to the parent's nice value.
    """

    memory_bytes: int | None = Field(default=None, gt=0)
    children_memory_bytes: int | None = Field(default=None, gt=0)
    cpu_s: float | None = Field(default=None, gt=0)
    file_size_bytes: int | None = Field(default=None, ge=0)
    open_files: int | None = Field(default=None, gt=0)
    core_bytes: int = Field(default=0, ge=0)
    niceness: int = Field(default=0, ge=0, le=19)

    def with_processor_time(self, cpu_s: float) -> "Limits":
        """Return the same limits, with processor time limited to ``cpu_s``."""
        return self.model_copy(update={"cpu_s": cpu_s})

    def with_more_memory(self, more_bytes: int) -> "Limits":
        """Return the same limits with that much more memory, if memory is limited."""
        if self.memory_bytes is None:
            return self
        return self.model_copy(update={"memory_bytes": self.memory_bytes + more_bytes})


class MemoryInUse(Frozen):
    """The mapped memory of a process in bytes: all of it, and the private writable part."""

    mapped_bytes: int
    private_bytes: int

    @classmethod
    def of_this_process(cls) -> "MemoryInUse":
        """Read the memory of this process, which a child inherits."""
        descriptor = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            pages = os.read(descriptor, 256).split()
        finally:
            os.close(descriptor)
        page_bytes = resource.getpagesize()
        return cls(mapped_bytes=int(pages[0]) * page_bytes, private_bytes=int(pages[5]) * page_bytes)


def impose(limits: Limits, inherited: MemoryInUse | None) -> None:
    """Apply ``limits`` to the calling process permanently. ``inherited`` is required if memory is limited."""
    if limits.memory_bytes is not None and inherited is not None:
        threads_bytes = THREAD_RESERVATION_BYTES * machine_processors()
        more_bytes = max(0, (limits.children_memory_bytes or 0) - limits.memory_bytes)
        data_bytes = inherited.private_bytes + limits.memory_bytes
        mapped_bytes = inherited.mapped_bytes + limits.memory_bytes + threads_bytes
        _tighten(resource.RLIMIT_DATA, data_bytes, hard=data_bytes + more_bytes)
        _tighten(resource.RLIMIT_AS, mapped_bytes, hard=mapped_bytes + more_bytes)
    if limits.cpu_s is not None:
        whole_s = int(-(-limits.cpu_s // 1))
        _tighten(resource.RLIMIT_CPU, whole_s, hard=whole_s + 1)
    if limits.file_size_bytes is not None:
        _tighten(resource.RLIMIT_FSIZE, limits.file_size_bytes)
    if limits.open_files is not None:
        _tighten(resource.RLIMIT_NOFILE, limits.open_files)
    _tighten(resource.RLIMIT_CORE, limits.core_bytes)
    os.nice(limits.niceness)


def tasks_on_this_machine() -> int:
    """The number of threads on this machine, over all users and processes."""
    descriptor = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(descriptor, 256).split()[3].partition(b"/")[2])
    finally:
        os.close(descriptor)


def bound_threads(tasks: int) -> None:
    """Limit the user of the calling process permanently to some threads more than the ``tasks`` of this machine.

    The kernel counts only the threads of the user, which are at most ``tasks``. It exempts root from this limit.
    """
    _tighten(resource.RLIMIT_NPROC, tasks + _tasks_of_children())


def tasks_of_server() -> int:
    """How many threads and processes a fork server and all its children may have together.

    A child at its own limit leaves enough for its siblings and for the server, which must still fork.
    """
    return _CHILDREN_AT_THEIR_LIMIT * _tasks_of_children()


def _tasks_of_children() -> int:
    cores = machine_processors()
    return _TASKS_BESIDE + cores * cores


def _tighten(kind: int, soft: int, *, hard: int | None = None) -> None:
    ceiling = resource.getrlimit(kind)[1]
    wanted_hard = soft if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        wanted_hard = min(wanted_hard, ceiling)
    resource.setrlimit(kind, (min(soft, wanted_hard), wanted_hard))
