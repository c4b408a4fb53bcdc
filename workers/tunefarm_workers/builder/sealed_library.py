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
    """Return a path of it in this process that differs from the paths of all other files that are in use.

    The loader takes a library at a path that it knows for the one that it has loaded from there, although the number of
    the descriptor may have been used again since. The file's own number is written as slashes that the kernel ignores.
    """
    number = os.fstat(descriptor).st_ino
    return f"/proc/self/fd/{''.join('./' if bit == '0' else './/' for bit in f'{number:b}')}{descriptor}"
