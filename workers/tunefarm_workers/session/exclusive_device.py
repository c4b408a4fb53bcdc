"""Ensures one farm per device on this host."""

import socket

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest


class ExclusiveDevice:
    """A lock on a device's name among the host's processes. The kernel releases it when the process ends."""

    def __init__(self, name: str) -> None:
        """Lock the device called ``name``. Raises ``BadInput`` if another process has it."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(f"\0tunefarm-device-{digest(name)[:32]}")
        except OSError as error:
            self._socket.close()
            fix = "Stop the worker that uses it: two on one device disturb each other."
            raise BadInput("device", f"another process of this host measures on {name}.", fix) from error

    def release(self) -> None:
        """Release the device. Idempotent."""
        self._socket.close()
