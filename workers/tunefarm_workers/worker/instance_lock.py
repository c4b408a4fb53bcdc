"""One living worker of a name on a host."""

import fcntl
import os
from pathlib import Path

from tunefarm_sandbox.channel.private_files import make_private_folder
from tunefarm_schemas.bad_input import BadInput


class InstanceLock:
    """A file lock that is held until ``close``, and let go by the kernel when this process dies."""

    def __init__(self, folder: Path, lane_id: str, name: str) -> None:
        """Raises BadInput when another process holds it."""
        make_private_folder(folder)
        self._path = folder / f"{lane_id}.lock"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            problem = f"a worker called {name!r} runs on this host already."
            raise BadInput("--name", problem, "Give each worker of a host a name, or cores, of its own.") from error

    def close(self) -> None:
        """Let it go; harmless when repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
