"""Which core each thread of a kernel runs on, in a process that has TVM's packages."""

import tvm_ffi

from tunefarm_workers.thread_cores import place_on_cores


def place_threads(num_cores: int) -> None:
    """As ``place_on_cores``, by the runtime that TVM's packages have loaded."""
    place_on_cores(num_cores, tvm_ffi.get_global_func("runtime.config_threadpool"))
