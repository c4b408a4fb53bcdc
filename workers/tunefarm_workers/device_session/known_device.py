"""A device as this host saw it earlier, so that noise at the edge of a class does not make one device two."""

import contextlib
from pathlib import Path

from pydantic import ValidationError

from tunefarm_schemas.device import Device


class KnownDevice:
    """One file in a folder of the worker's own, named after the device's fingerprint."""

    def __init__(self, home: Path, fingerprint: str) -> None:
        """``home`` is the folder of everything this software keeps; ``fingerprint`` is a digest of its own making."""
        folder = home.expanduser().absolute() / "devices"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{fingerprint}.json"

    def read(self) -> Device | None:
        """The device, if it was seen before."""
        try:
            return Device.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return None

    def write(self, device: Device) -> None:
        """Keep it for the next time; without room for it, it is identified anew then."""
        unfinished = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            unfinished.write_text(device.model_dump_json())
            unfinished.replace(self._path)
