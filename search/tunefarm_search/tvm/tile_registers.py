"""The registers of Intel's matrix unit, which Linux saves only for processes that ask for them."""

import ctypes
import os
from typing import Final

ARCH_PRCTL: Final = 158
"""The number of the system call on x86-64, the only architecture with this unit."""
REQUEST: Final = 0x1023
"""``ARCH_REQ_XCOMP_PERM``."""
TILE_DATA: Final = 18
"""The number of the registers among the parts of a processor's state."""


def are_granted() -> bool:
    """Ask for the registers for this process. False where the kernel, or a filter of system calls, denies them."""
    if os.uname().machine != "x86_64":
        return False
    return int(ctypes.CDLL(None, use_errno=True).syscall(ARCH_PRCTL, REQUEST, TILE_DATA)) == 0
