"""Processes whose parent was killed: whether they run on."""

import time
from collections.abc import Iterable

import psutil

GONE_S = 20.0
"""Far longer than a kill takes on a host that is slow at the moment. What nobody kills runs on for longer."""


def assert_gone(family: Iterable[psutil.Process], of_whom: object, within_s: float = GONE_S) -> None:
    """All of them have ended, or do so in time.

    What only waits to be reaped has ended: whoever adopts orphans on this host reaps them when it pleases.
    """
    family = list(family)
    deadline_s = time.monotonic() + within_s
    while (alive := [process for process in family if runs(process)]) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not alive, (of_whom, [process.as_dict(["pid", "cmdline", "status"]) for process in alive])


def runs(process: psutil.Process) -> bool:
    """Whether it can still do anything."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
