"""Tickets: paths that TVM gets instead of the path of a built library.

After a run, TVM's tuner deletes the parent folder of a builder's path, whatever it contains. Each ticket is therefore
an empty file in its own private folder, whose deletion is harmless and wanted. The ticket's module is kept in memory,
and only paths that this process issued are accepted.
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
    """A scheduled function as TVM JSON, with its target as JSON."""

    module_json: str = field(repr=False)
    target: str


class Tickets:
    """The tickets of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[str, ScheduledModule] = {}
        self._folders: dict[str, str] = {}

    def issue(self, module: ScheduledModule) -> str:
        """Create a ticket for ``module``: an empty file in its own folder."""
        folder = tempfile.mkdtemp(prefix="tunefarm-ticket-")
        path = str(Path(folder) / f"ticket-{secrets.token_hex(16)}")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with self._lock:
            self._forget_removed()
            self._live[path] = module
            self._folders[path] = folder
        return path

    def redeem(self, path: str) -> ScheduledModule | None:
        """Return the ticket's module, once; None for a path that was not issued here or was already redeemed."""
        with self._lock:
            return self._live.pop(path, None)

    def remove_left(self) -> None:
        """Remove tickets that TVM has not removed. Removes only empty folders that this process created."""
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
"""One per process: TVM creates builder and runner separately, and neither knows the other."""

atexit.register(TICKETS.remove_left)
