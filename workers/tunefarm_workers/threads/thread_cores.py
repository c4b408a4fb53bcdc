"""Which core each thread of a kernel runs on, whoever speaks to TVM's runtime."""

import os
from collections.abc import Callable

_ONE_CORE_PER_THREAD = -2
"""TVM's affinity mode in which worker number i runs on the i-th core of the list that is given."""


def cores_for(threads: int) -> list[int]:
    """The cores of this process for so many threads, the calling one's first; none where there are too few."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    return cores if len(cores) == threads else []


def place_on_cores(num_cores: int, configure: Callable[[int, int, list[str]], object]) -> None:
    """Give each of ``num_cores`` threads of this process's kernels a core of its own, the calling thread included.

    ``configure`` is the runtime's ``runtime.config_threadpool``. Left alone, TVM ties its workers to cores but not the
    thread that calls the kernel, trusting the scheduler to find it the core that is left. For kernels of some
    microseconds it often does not: both threads then share one core for as long as the process lives, and the kernel
    takes twice its time.
    """
    cores = cores_for(num_cores)
    if not cores:
        return
    configure(_ONE_CORE_PER_THREAD, num_cores, [str(core) for core in cores])
    os.sched_setaffinity(0, {cores[0]})
