"""Memory without a path that several processes read."""

import fcntl
import mmap
import os
from typing import Self

_FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class NotSealed(OSError):
    """Raised when memory cannot be made unchangeable: another process has it mapped to write there."""


class SharedMemory:
    """Anonymous memory of a fixed size. Nobody can change the size, so no mapping can lose its ground.

    Any process of the same user may open it through ``/proc/PID/fd`` until ``seal``, whatever descriptor it was given.
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
        """Memory that holds ``contents`` for good.

        Raises:
            NotSealed: another process wrote there meanwhile, or could.
        """
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
        """Make the contents unchangeable, for every process and for good. Raises ``NotSealed``."""
        try:
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL)
        except OSError as error:
            raise NotSealed(error.errno, f"it cannot be sealed: {error.strerror}") from error

    def close(self) -> None:
        """Let the descriptor go; mappings stay."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
