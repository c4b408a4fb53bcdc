"""Which processes the kernel ends first when memory runs short."""

import contextlib
import os
from typing import Final

_FIRST: Final = b"1000"


class MemoryShortage:
    """Forks children that are ended before this process and all others.

    A process that cannot be dumped and is not root's may not write its own score, so that a child could not raise its
    own: this process opens its file while it still can be dumped, and children inherit what it says during the fork.
    """

    def __init__(self) -> None:
        """Called while this process can be dumped."""
        self._descriptor = -1
        self._usual = b"0"
        with contextlib.suppress(OSError):
            self._descriptor = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._usual = os.pread(self._descriptor, 16, 0).strip()

    def forked_to_die_first(self) -> int:
        """As ``os.fork``."""
        self._say(_FIRST)
        try:
            pid = os.fork()
        except OSError:
            self._say(self._usual)
            raise
        if pid:
            self._say(self._usual)
        return pid

    def _say(self, score: bytes) -> None:
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, score, 0)
