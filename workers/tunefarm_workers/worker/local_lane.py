"""A lane on this host's processor."""

import fcntl
import os
from pathlib import Path

from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.device.cpu_identity import cpu_identity, host_fingerprint
from tunefarm_workers.device.known_device import KnownDevice
from tunefarm_workers.lane.local_farm import LocalFarm
from tunefarm_workers.worker.settings import WorkerSettings


def build(settings: WorkerSettings, fork_server: ForkServer, scratch: Path, blobs: Blobs) -> LocalFarm:  # noqa: ARG001 - a maker's shape
    """Identify the device and start its farm. Raises ForkFailed.

    The identified device is stored under TUNEFARM_HOME, so that timing noise does not move the host to another class.
    The lock keeps lanes that start together from identifying it twice, differently.
    """
    known = KnownDevice(settings.home, host_fingerprint(cpu_identity()))
    lock = os.open(known.folder / "identify.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        farm = LocalFarm(fork_server, scratch=scratch, known=known.read())
        known.write(farm.device)
    finally:
        os.close(lock)
    return farm
