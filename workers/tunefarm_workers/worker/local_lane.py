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


def build(settings: WorkerSettings, zygote: ForkServer, scratch: Path, blobs: Blobs) -> LocalFarm:  # noqa: ARG001 - a maker's shape
    """Identify the device, or recognise it, and begin.

    What the host's reference kernels took the first time is kept under TUNEFARM_HOME, so that noise at the edge of a
    class does not make one host two, however many of its lanes start at once. Raises ForkFailed.
    """
    known = KnownDevice(settings.home, host_fingerprint(cpu_identity()))
    lock = os.open(known.folder / "identify.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        farm = LocalFarm(zygote, scratch=scratch, known=known.read())
        known.write(farm.device)
    finally:
        os.close(lock)
    return farm
