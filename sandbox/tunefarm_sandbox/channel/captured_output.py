"""The output of another process, kept in memory."""

import fcntl
import os
from typing import Final

CAPACITY_BYTES: Final = 256 << 10
"""Capacity of the file; writes beyond it fail in the process that writes."""


class CapturedOutput:
    """A file in memory for the standard output and error of another process.

    Its size is fixed at creation, so that a child cannot exhaust memory by printing.
    """

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("output", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self._descriptor, CAPACITY_BYTES)
        seals = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, seals)

    def fileno(self) -> int:
        """The descriptor to pass to the process; -1 when closed."""
        return self._descriptor

    def tail(self, size_bytes: int) -> str:
        """The last ``size_bytes`` of the output; empty when closed."""
        if self._descriptor < 0:
            return ""
        # The position is shared with the process that writes.
        written = min(os.lseek(self._descriptor, 0, os.SEEK_CUR), CAPACITY_BYTES)
        start = max(0, written - size_bytes)
        return os.pread(self._descriptor, written - start, start).decode(errors="replace")

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()
