"""A library in memory that no process can change any more: what was checked is what is loaded."""

import fcntl
import os


def sealed(contents: bytes) -> int:
    """A descriptor of a copy of ``contents``; it is the caller's to close, and may be passed to other processes."""
    descriptor = os.memfd_create("library", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(contents)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def path_of(descriptor: int) -> str:
    """Where this process finds it. The loader takes a second library under the same path for the first one."""
    return f"/proc/self/fd/{descriptor}"
