"""One farm per device on this host."""

import socket

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest


class ExclusiveDevice:
    """Holds a name that only one process of a host can have; it is free again when that process is gone."""

    def __init__(self, name: str) -> None:
        """Take the device called ``name``.

        Raises:
            BadInput: another process has it.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(f"\0tunefarm-device-{digest(name)[:32]}")
        except OSError as error:
            self._socket.close()
            fix = "Stop the worker that has it: two on one device disturb each other."
            raise BadInput("device", f"another process of this host measures on {name}.", fix) from error

    def release(self) -> None:
        """Let others have it; harmless when repeated."""
        self._socket.close()
