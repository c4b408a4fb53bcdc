"""A device as this host saw it earlier, so that noise at the edge of a class does not make one device two."""

import contextlib
from pathlib import Path

from pydantic import ValidationError

from tunefarm_sandbox.channel.private_files import make_private_folder, write_private_file
from tunefarm_schemas.tuning.device import Device


class KnownDevice:
    """One file in a folder of the worker's own, named after the device's fingerprint."""

    def __init__(self, home: Path, fingerprint: str) -> None:
        """``home`` is the folder of everything this software keeps; ``fingerprint`` is a digest of its own making."""
        self.folder = home.expanduser().absolute() / "devices"
        make_private_folder(self.folder)
        self._path = self.folder / f"{fingerprint}.json"

    def read(self) -> Device | None:
        """The device, if it was seen before."""
        try:
            return Device.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return None

    def write(self, device: Device) -> None:
        """Keep it for the next time; without room for it, it is identified anew then."""
        with contextlib.suppress(OSError):
            write_private_file(self._path, device.model_dump_json().encode())
