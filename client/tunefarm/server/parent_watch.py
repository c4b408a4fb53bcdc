"""Dying with the process that started this one."""

import os
import signal
from collections.abc import Callable

from tunefarm_sandbox.confinement.linux import PR_SET_PDEATHSIG, prctl


def die_with(parent: int, alive: Callable[[], int] = os.getppid) -> bool:
    """Have the kernel kill this process when its parent is gone; False when it is gone already.

    A kill loses nothing, and an end in order would leave things running for longer than anyone expects.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return alive() == parent
