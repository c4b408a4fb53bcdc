"""Untried schedules end the process that builds them, in the process that imports this and its forks."""

import os
import signal
from typing import Any

from tunefarm.model import build_child


def _end(_module: Any, _target: Any) -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


build_child.untried_schedule = _end
