"""Ties the lifetime of this process to that of its parent."""

import os
import signal
from collections.abc import Callable

from tunefarm_sandbox.confinement.linux import PR_SET_PDEATHSIG, prctl


def die_with(parent: int, alive: Callable[[], int] = os.getppid) -> bool:
    """Have the kernel kill this process when its parent ends; False if it has already ended.

    SIGKILL loses nothing, and an orderly stop could keep processes running for seconds after the parent.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return alive() == parent
