"""Tickets: what TVM is given in place of a path to a built library.

TVM's tuner removes the whole folder that a builder's path lies in, whatever that is, once the path was run. So each
ticket is an empty file in a folder that was made for it alone, private to this user, and holds nothing else: removing
it is the only harm that can be done, and is what we want. What the ticket stands for is kept in memory, and only paths
that this process itself made mean anything.
"""

import atexit
import contextlib
import os
import secrets
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


@dataclass(frozen=True)
class ScheduledModule:
    """A function with its schedule applied, as TVM JSON, and the target it is for, as JSON."""

    module_json: str = field(repr=False)
    target: str


class Tickets:
    """The tickets of one process. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[str, ScheduledModule] = {}
        self._folders: dict[str, str] = {}

    def issue(self, module: ScheduledModule) -> str:
        """A path that stands for ``module``: an empty file in a folder of its own."""
        folder = tempfile.mkdtemp(prefix="tunefarm-ticket-")
        path = str(Path(folder) / f"ticket-{secrets.token_hex(16)}")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with self._lock:
            self._forget_removed()
            self._live[path] = module
            self._folders[path] = folder
        return path

    def redeem(self, path: str) -> ScheduledModule | None:
        """What the ticket stands for, once; None for a path that was never issued here or was redeemed before."""
        with self._lock:
            return self._live.pop(path, None)

    def remove_left(self) -> None:
        """Remove the files and folders that nobody has removed. Only empty folders go, and only our own."""
        with self._lock:
            for path, folder in self._folders.items():
                with contextlib.suppress(OSError):
                    Path(path).unlink(missing_ok=True)
                    Path(folder).rmdir()
            self._folders.clear()
            self._live.clear()

    def _forget_removed(self) -> None:
        gone = [path for path, folder in self._folders.items() if path not in self._live and not Path(folder).exists()]
        for path in gone:
            del self._folders[path]


TICKETS: Final = Tickets()
"""One for the process: TVM makes builder and runner separately, and neither learns of the other."""

atexit.register(TICKETS.remove_left)
