"""A lane on this host's processor."""

import contextlib
import fcntl
import os
from pathlib import Path

from pydantic import ValidationError

from tunefarm_sandbox.fork_server import ForkServer
from tunefarm_schemas.device import Device
from tunefarm_workers.celery_worker.blobs import Blobs
from tunefarm_workers.celery_worker.settings import WorkerSettings
from tunefarm_workers.cpu_identity import cpu_identity, host_fingerprint
from tunefarm_workers.farm_settings import FarmSettings
from tunefarm_workers.local_farm import LocalFarm


def build(settings: WorkerSettings, zygote: ForkServer, scratch: Path, blobs: Blobs) -> LocalFarm:  # noqa: ARG001 - a maker's shape
    """Identify the device, or recognise it, and begin.

    What the host's reference kernels took the first time is kept under TUNEFARM_HOME, so that noise at the edge of a
    class does not make one host two, however many of its lanes start at once. Raises ForkFailed.
    """
    folder = settings.home.expanduser().absolute() / "devices"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{host_fingerprint(cpu_identity())}.json"
    lock = os.open(folder / "identify.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = _read(path)
        farm = LocalFarm(zygote, scratch=scratch, known=known, settings=FarmSettings(callees=settings.worker_callees))
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
    unfinished = path.with_suffix(".new")
    with contextlib.suppress(OSError):  # then it is identified anew next time
        unfinished.write_text(device.model_dump_json())
        unfinished.replace(path)
