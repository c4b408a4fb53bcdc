"""What a fork server loads before it forks measuring children."""

from typing import Final

import tvm.s_tir.meta_schedule  # noqa: F401 - loaded for the children
from tvm.s_tir import Schedule  # noqa: F401

import tunefarm_workers.candidate
import tunefarm_workers.comparison_child
import tunefarm_workers.fresh_process
import tunefarm_workers.input_child
import tunefarm_workers.link_child
import tunefarm_workers.reference
import tunefarm_workers.reference_kernels
import tunefarm_workers.task_host  # noqa: F401
from tunefarm_workers.warm_compiler import warm_compiler

PRELOAD: Final = "tunefarm_workers.preload:preload"


def preload() -> None:
    """Load what candidates for this host need. Runs no kernel: a process that forks must not."""
    warm_compiler()
