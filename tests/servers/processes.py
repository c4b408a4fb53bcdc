"""Environments of commands, and whether processes of a killed parent run on."""

import os
import time
from collections.abc import Iterable
from typing import Final

import psutil

GONE_S = 120.0
"""Far longer than a kill takes on a slow host, and shorter than a surviving process runs."""


THREADS: Final = "TVM_NUM_THREADS"
"""Loading a kernel sets it, so a process that ran a test with one thread would pass it on to all later commands."""


def environment_without_settings() -> dict[str, str]:
    """This environment without settings of tunefarm and TVM, except for the folder of turns that this run shares."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEFARM_") and name != THREADS}
    turns = os.environ.get("TUNEFARM_TURN_FOLDER")
    return kept if turns is None else {**kept, "TUNEFARM_TURN_FOLDER": turns}


def assert_gone(family: Iterable[psutil.Process], of_whom: object, within_s: float = GONE_S) -> None:
    """Assert that all of them end in time.

    A zombie has ended: the process that adopts orphans on this host may reap it late.
    """
    family = list(family)
    deadline_s = time.monotonic() + within_s
    while (alive := [process for process in family if runs(process)]) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not alive, (of_whom, [process.as_dict(["pid", "cmdline", "status"]) for process in alive])


def runs(process: psutil.Process) -> bool:
    """Whether it exists and is not a zombie."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
