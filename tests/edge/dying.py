"""A disk whose power is cut at one of its changes, and devices that are updated on it."""

import os
import random
import signal
import time
from collections.abc import Callable
from typing import TypeVar

from tests.edge.bundles import scaled
from tests.edge.conftest import Device
from tunefarm_edge.state.disk import Disk
from tunefarm_edge.trust.source import FolderSource

DIED = 77
_Result = TypeVar("_Result")


class DyingDisk(Disk):
    """Ends the process instead of its change number ``at``, counted from 0."""

    def __init__(self, at: int = 1 << 60) -> None:
        self.at, self.changes = at, 0

    def _do(self, change: Callable[[], _Result]) -> _Result:
        if self.changes == self.at:
            os._exit(DIED)
        self.changes += 1
        return change()


def update_in_child(device: Device, at: int) -> bool:
    """Start the agent and update the device; whether the process died at its change ``at``."""
    child = os.fork()
    if child == 0:
        try:
            update(device, DyingDisk(at))
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == DIED


def update(device: Device, disk: Disk) -> None:
    root = device.root(disk)
    with root.locked():
        device.agent(disk).update(FolderSource(device.repository.folder))


def start(device: Device) -> int:
    """Update the device in a process of its own; returns its id."""
    child = os.fork()
    if child == 0:
        try:
            update(device, Disk())
        finally:
            os._exit(0)
    return child


def was_killed(child: int) -> bool:
    """Wait for a process; whether a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) < 0


def kill_after(device: Device, seconds: float) -> bool:
    """Update the device in a process that is killed; whether it was still running then."""
    child = start(device)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return was_killed(child)


def assert_whole(device: Device, *factors: float) -> None:
    """The current release is one of these as a whole, and infers."""
    assert device.computed() in [scaled(factor) for factor in factors]


def random_moments(count: int, within_s: float) -> list[float]:
    generator = random.Random(11)
    return [generator.uniform(0, within_s) for _ in range(count)]
