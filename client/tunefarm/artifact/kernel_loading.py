"""A kernel's library loaded into this process, on as many threads as its record was taken with."""

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tunefarm_schemas.host_cores import usable_processors

SETTING: Final = "TVM_NUM_THREADS"


def load_kernel(write: Callable[[Path], Path], num_cores: int) -> Any:
    """The TVM runtime module of a library that ``write`` puts into a folder of its own, which is gone afterwards."""
    import tvm

    if num_cores > 0:
        use_recorded_threads(num_cores)
    with tempfile.TemporaryDirectory(prefix="tunefarm-") as folder:
        return tvm.runtime.load_module(str(write(Path(folder))))


def use_recorded_threads(num_cores: int) -> None:
    """Let kernels of this process run on as many threads as their record was taken with.

    Left alone, TVM takes half of the logical processors, whatever a target says: a kernel for two cores then runs on
    one, at half its speed. TVM reads its setting when the first kernel runs, so it is made here unless the user has
    made it. Where the threads are others all the same, a warning says what to set.
    """
    if SETTING not in os.environ and num_cores <= usable_processors():
        os.environ[SETTING] = str(num_cores)
    threads = _threads_of_tvm()
    if threads != num_cores:
        warnings.warn(
            f"The kernel was timed on {num_cores} threads, and TVM uses {threads} in this process. For the recorded "
            f"speed set {SETTING}={num_cores} before the first kernel runs, with as many cores to run on.",
            stacklevel=4,
        )


def _threads_of_tvm() -> int:
    """How many TVM takes. The first who asks is tied to that many cores by TVM, and so is all that it starts later."""
    import tvm

    if not hasattr(os, "sched_getaffinity"):
        return int(tvm.runtime.num_threads())
    cores = os.sched_getaffinity(0)
    try:
        return int(tvm.runtime.num_threads())
    finally:
        os.sched_setaffinity(0, cores)
