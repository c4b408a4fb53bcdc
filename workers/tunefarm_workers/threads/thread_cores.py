"""Placement of a kernel's threads, through any interface to TVM's runtime."""

import os
from collections.abc import Callable

_ONE_CORE_PER_THREAD = -2
"""TVM's affinity mode in which worker i runs on the i-th core of a list."""


def cores_for(threads: int) -> list[int]:
    """Return the cores for so many threads of this process, the calling thread's first; none if there are too few."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    return cores if len(cores) == threads else []


def place_on_cores(num_cores: int, configure: Callable[[int, int, list[str]], object]) -> None:
    """Pin each of the ``num_cores`` threads of this process's kernels to a core, the calling thread included.

    ``configure`` is the runtime's ``runtime.config_threadpool``. By default TVM pins its workers but not the calling
    thread, and relies on the scheduler to move that to the free core. For kernels of a few microseconds it often does
    not: two threads then share a core for the life of the process, and the kernel takes twice as long.
    """
    cores = cores_for(num_cores)
    if not cores:
        return
    configure(_ONE_CORE_PER_THREAD, num_cores, [str(core) for core in cores])
    os.sched_setaffinity(0, {cores[0]})
