"""Which core each thread of a kernel runs on, whoever speaks to TVM's runtime."""

import os
from collections.abc import Callable

_ONE_CORE_PER_THREAD = -2
"""TVM's affinity mode in which worker number i runs on the i-th core of the list that is given."""


def place_on_cores(num_cores: int, configure: Callable[[int, int, list[str]], object]) -> None:
    """Give each of ``num_cores`` threads of this process's kernels a core of its own, the calling thread included.

    ``configure`` is the runtime's ``runtime.config_threadpool``. Left alone, TVM ties its workers to cores but not the
    thread that calls the kernel, trusting the scheduler to find it the core that is left. For kernels of some
    microseconds it often does not: both threads then share one core for as long as the process lives, and the kernel
    takes twice its time.
    """
    cores = sorted(os.sched_getaffinity(0))[:num_cores]
    if len(cores) < num_cores:
        return
    configure(_ONE_CORE_PER_THREAD, num_cores, [str(core) for core in cores])
    os.sched_setaffinity(0, {cores[0]})
