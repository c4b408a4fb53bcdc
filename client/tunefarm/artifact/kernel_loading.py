"""Loads a kernel's library into this process, with the number of threads of its record."""

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tunefarm_schemas.host_cores import usable_processors

SETTING: Final = "TVM_NUM_THREADS"


def load_kernel(write: Callable[[Path], Path], num_cores: int) -> Any:
    """Load the library that ``write`` writes into a temporary folder, as a TVM runtime module."""
    import tvm

    if num_cores > 0:
        use_recorded_threads(num_cores)
    with tempfile.TemporaryDirectory(prefix="tunefarm-") as folder:
        return tvm.runtime.load_module(str(write(Path(folder))))


def use_recorded_threads(num_cores: int) -> None:
    """Make kernels of this process run with the number of threads of their record.

    By default TVM uses half of the logical processors, whatever the target: a kernel for two cores may run on one, at
    half its speed. TVM reads TVM_NUM_THREADS when the first kernel runs, so it is set here unless the user has set it.
    If TVM still uses another number of threads, a warning names the variable to set.
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
    """TVM's number of threads. Restores the affinity: TVM pins the first thread that asks, and all its children."""
    import tvm

    if not hasattr(os, "sched_getaffinity"):
        return int(tvm.runtime.num_threads())
    cores = os.sched_getaffinity(0)
    try:
        return int(tvm.runtime.num_threads())
    finally:
        os.sched_setaffinity(0, cores)
