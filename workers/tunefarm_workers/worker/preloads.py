"""What the fork servers of lanes load. A worker names it without loading it: its own process needs no TVM."""

from typing import Final

from tunefarm_search.tvm.loading import LOAD_TVM

PROCESSOR: Final = (LOAD_TVM, "tunefarm_workers.child.preload:preload")
"""For candidates that run on this host."""

SESSION: Final = (LOAD_TVM, "tunefarm_workers.session.device.preload:preload")
"""For sessions with boards and cards, and for builds for other hosts."""

NVIDIA_SESSION: Final = (*SESSION, "tunefarm_workers.builder.nvrtc:preload")
"""The same with NVRTC, for NVIDIA GPUs."""
