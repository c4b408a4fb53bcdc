"""One malloc arena for all threads of a long-running process."""

import ctypes
import platform
from typing import Final

_M_ARENA_MAX: Final = -8


def share_one_heap() -> None:
    """Make all threads that start from now on share glibc's main arena.

    By default glibc creates up to eight arenas per core, and a thread cannot reuse memory that was freed in another
    arena: a service in which any thread answers any request grows by several megabytes an hour. Python's threads hold
    the interpreter lock in turn, so a single arena costs no throughput. Other C libraries are left as they are.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
