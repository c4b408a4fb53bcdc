"""Placement of a kernel's threads in a process that has TVM's packages."""

import tvm_ffi

from tunefarm_sandbox.confinement.seal import seal
from tunefarm_workers.threads.thread_cores import place_on_cores


def place_threads(num_cores: int) -> None:
    """Call ``place_on_cores`` with the runtime that TVM's packages have loaded."""
    place_on_cores(num_cores, tvm_ffi.get_global_func("runtime.config_threadpool"))


def seal_with_threads() -> None:
    """Create all threads of kernels, then restrict this process to computing with ``seal``."""
    tvm_ffi.get_global_func("runtime.NumThreads")()  # creates the threads, which a sealed process cannot
    seal()
