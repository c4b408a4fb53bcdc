"""Immutable copies of libraries in memory, so that the bytes that were checked are the bytes that are loaded."""

import fcntl
import os


def sealed(contents: bytes) -> int:
    """Return a descriptor of a sealed copy of ``contents``, which the caller closes and may pass to other processes."""
    descriptor = os.memfd_create("library", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(contents)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def path_of(descriptor: int) -> str:
    """Return its path in this process. The loader mistakes a second library at the same path for the first one."""
    return f"/proc/self/fd/{descriptor}"
