"""A lane on this host's processor."""

import contextlib
import fcntl
import os
from pathlib import Path

from pydantic import ValidationError

from tunefarm_sandbox.channel.private_files import make_private_folder, write_private_file
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.device import Device
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.device.cpu_identity import cpu_identity, host_fingerprint
from tunefarm_workers.lane.local_farm import LocalFarm
from tunefarm_workers.worker.settings import WorkerSettings


def build(settings: WorkerSettings, zygote: ForkServer, scratch: Path, blobs: Blobs) -> LocalFarm:  # noqa: ARG001 - a maker's shape
    """Identify the device and start its farm. Raises ForkFailed.

    The identified device is stored under TUNEFARM_HOME, so that timing noise does not move the host to another class.
    The lock keeps lanes that start together from identifying it twice, differently.
    """
    folder = settings.home.expanduser().absolute() / "devices"
    make_private_folder(folder)
    path = folder / f"{host_fingerprint(cpu_identity())}.json"
    lock = os.open(folder / "identify.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = _read(path)
        farm = LocalFarm(zygote, scratch=scratch, known=known)
        if farm.device != known:
            _write(path, farm.device)
    finally:
        os.close(lock)
    return farm


def _read(path: Path) -> Device | None:
    try:
        return Device.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _write(path: Path, device: Device) -> None:
    with contextlib.suppress(OSError):  # the device is identified again next time
        write_private_file(path, device.model_dump_json().encode())
