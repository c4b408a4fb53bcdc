"""The preload of fork servers for measuring children."""

import tvm.s_tir.meta_schedule  # noqa: F401 - loaded for the children
from tvm.s_tir import Schedule  # noqa: F401

from tunefarm_workers.builder.warm_compiler import warm_compiler


def preload() -> None:
    """Load what candidates for this host need. Runs no kernel, which would break kernels in forked children."""
    warm_compiler()
