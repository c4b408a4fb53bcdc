"""Memory that a child writes and its supervisor reads."""

import fcntl
import mmap
import os
from types import TracebackType
from typing import Self


class SharedMemory:
    """Anonymous memory of a fixed size. Neither side can change the size, so no mapping can lose its ground."""

    def __init__(self, name: str, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, size_bytes)
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals)
        except OSError:
            os.close(self.descriptor)
            raise

    def map(self) -> mmap.mmap:
        """A read-only view of the contents as they are and will be."""
        return mmap.mmap(self.descriptor, self.size_bytes, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)

    def close(self) -> None:
        """Let the descriptor go; mappings stay."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
