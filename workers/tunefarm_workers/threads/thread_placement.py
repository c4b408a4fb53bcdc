"""Which core each thread of a kernel runs on, in a process that has TVM's packages."""

import tvm_ffi

from tunefarm_sandbox.confinement.seal import seal
from tunefarm_workers.threads.thread_cores import place_on_cores


def place_threads(num_cores: int) -> None:
    """As ``place_on_cores``, by the runtime that TVM's packages have loaded."""
    place_on_cores(num_cores, tvm_ffi.get_global_func("runtime.config_threadpool"))


def seal_with_threads() -> None:
    """Let this process do nothing but compute from now on, as ``seal``, once all threads of its kernels stand."""
    tvm_ffi.get_global_func("runtime.NumThreads")()  # makes them where nothing has; after the seal there are no more
    seal()
