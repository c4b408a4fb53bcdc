"""The order in which the kernel kills processes when memory runs out."""

import contextlib
import os
from typing import Final

_FIRST: Final = b"1000"


class MemoryShortage:
    """Forks children that the OOM killer kills before this process and all others.

    A non-dumpable process without root may not write its own score, so a child cannot raise its own. This process opens
    its file while it is still dumpable, and raises its score during the fork, so that children inherit it.
    """

    def __init__(self) -> None:
        """Open the score file; call this while the process is dumpable."""
        self._descriptor = -1
        self._usual = b"0"
        with contextlib.suppress(OSError):
            self._descriptor = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._usual = os.pread(self._descriptor, 16, 0).strip()

    def fork_killed_first(self) -> int:
        """Call ``os.fork`` with a raised score."""
        self._write_score(_FIRST)
        try:
            pid = os.fork()
        except OSError:
            self._write_score(self._usual)
            raise
        if pid:
            self._write_score(self._usual)
        return pid

    def _write_score(self, score: bytes) -> None:
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, score, 0)
