"""At most one service with a tuner per TUNEFARM_HOME: two would disturb each other's measurements."""

import fcntl
import os
from typing import Final, Self

from tunefarm.startup.installation import private_folder
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings

LOCK_FILE: Final = "serve.lock"


class SingleService:
    """A lock that is held inside the ``with`` block. The kernel releases it when this process dies."""

    def __init__(self, settings: Settings) -> None:
        self._path = private_folder(settings, ".") / LOCK_FILE
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Take the lock. Raises BadInput when another service holds it."""
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            problem = f"tunefarm serve is already running on {self._path.parent}."
            fix = "Stop it, set another TUNEFARM_HOME, or add --no-tuner."
            raise BadInput("TUNEFARM_HOME", problem, fix) from error
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
