"""One heap for all threads of a process that runs for months."""

import ctypes
import platform
from typing import Final

_M_ARENA_MAX: Final = -8


def share_one_heap() -> None:
    """Have every thread that is started from now on allocate from the heap of the first one.

    The C library gives each thread a heap of its own, up to eight for each core, and what one thread frees does not
    serve the others: a service in which any thread answers any request grows by some megabytes an hour although it
    holds no more than before. Python's threads take turns anyway, so one heap costs them nothing. Only the GNU library
    does this, and only it is told.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
