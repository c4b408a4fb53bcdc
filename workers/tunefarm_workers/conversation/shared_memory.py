"""Anonymous memory that several processes read."""

import fcntl
import mmap
import os
from typing import Self

_FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class NotSealed(OSError):
    """Raised when memory cannot be sealed, because another process has a writable mapping."""


class SharedMemory:
    """Anonymous memory of a fixed size: truncating it would crash the processes that map it.

    Until ``seal``, any process of the same user may open it for writing through ``/proc/PID/fd``.
    """

    def __init__(self, name: str, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, size_bytes)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _FIXED_SIZE)
        except OSError:
            self.close()
            raise

    @classmethod
    def holding(cls, name: str, contents: bytes) -> Self:
        """Create sealed memory with ``contents``. Raises ``NotSealed`` if another process wrote there, or could."""
        memory = cls(name, max(len(contents), 1))
        try:
            written = 0
            while written < len(contents):
                written += os.pwrite(memory.descriptor, memoryview(contents)[written:], written)
            memory.seal()
            with mmap.mmap(memory.descriptor, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ) as held:
                if held[: len(contents)] != contents:
                    raise NotSealed("another process changed it before it was sealed")
        except BaseException:
            memory.close()
            raise
        return memory

    def seal(self) -> None:
        """Make the contents immutable for all processes. Raises ``NotSealed``."""
        try:
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL)
        except OSError as error:
            raise NotSealed(error.errno, f"it cannot be sealed: {error.strerror}") from error

    def close(self) -> None:
        """Close the descriptor; mappings stay."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
