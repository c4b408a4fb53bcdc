"""A folder for a command's temporary files. If the command is killed, the next command removes the folder."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final, Self

LOCK_NAME: Final = "in-use.lock"
_UNFINISHED_LOCK_NAME: Final = "in-use.lock.new"


class ScratchFolder:
    """A new folder in ``parent``, with a lock file that this process holds until it ends.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: Path, lock: int | None) -> None:
        """Called by ``within``."""
        self.path = path
        self._lock = lock

    @classmethod
    def within(cls, parent: Path) -> Self:
        """Remove the folders of killed commands in ``parent``, and create a new folder there."""
        remove_stale(parent)
        path = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        return cls(path, _locked(path))

    def close(self) -> None:
        """Remove the folder. Idempotent; the folder may already be gone."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_stale(parent: Path) -> None:
    """Remove the folders directly in ``parent`` whose lock file is not locked."""
    with os.scandir(parent) as entries:
        folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    for folder in folders:
        with contextlib.suppress(OSError):  # no lock file, locked, or just removed by another command
            lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """Create and lock the lock file; None on a file system without locks, where stale folders stay.

    The file is renamed to its final name only after it is locked. Otherwise another command could find it unlocked and
    remove the folder of a running command.
    """
    lock = os.open(folder / _UNFINISHED_LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / _UNFINISHED_LOCK_NAME).rename(folder / LOCK_NAME)
    except OSError:
        os.close(lock)
        return None
    return lock
