"""Ensures one running worker per name on a host."""

import fcntl
import os
from pathlib import Path

from tunefarm_sandbox.channel.private_files import make_private_folder
from tunefarm_schemas.bad_input import BadInput


class InstanceLock:
    """A file lock, held until ``close`` or the end of this process."""

    def __init__(self, folder: Path, lane_id: str, name: str) -> None:
        """Acquire the lock. Raises BadInput if another process holds it."""
        make_private_folder(folder)
        self._path = folder / f"{lane_id}.lock"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            problem = f"a worker named {name!r} is already running on this host."
            raise BadInput("--name", problem, "Give each worker of a host its own name or cores.") from error

    def close(self) -> None:
        """Release the lock. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
