"""Remembers how a device was identified, so that timing noise does not move it to another device class."""

import contextlib
from pathlib import Path

from pydantic import ValidationError

from tunefarm_sandbox.channel.private_files import make_private_folder, write_private_file
from tunefarm_schemas.tuning.device import Device


class KnownDevice:
    """One file in the worker's folder, named after the device's fingerprint."""

    def __init__(self, home: Path, fingerprint: str) -> None:
        """``home`` is tunefarm's folder. ``fingerprint`` is a digest computed by this process: it becomes a path."""
        self.folder = home.expanduser().absolute() / "devices"
        make_private_folder(self.folder)
        self._path = self.folder / f"{fingerprint}.json"

    def read(self) -> Device | None:
        """The device, or None if it was not identified before."""
        try:
            return Device.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return None

    def write(self, device: Device) -> None:
        """Store the device; if that fails, it is identified again next time."""
        with contextlib.suppress(OSError):
            write_private_file(self._path, device.model_dump_json().encode())
