"""A folder for one command's temporary files, which outlives a killed command only until the next one starts."""

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
    """A new folder in ``parent``, with a lock file that is held for as long as this process lives.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: Path, lock: int | None) -> None:
        """Used by ``within``."""
        self.path = path
        self._lock = lock

    @classmethod
    def within(cls, parent: Path) -> Self:
        """Remove what killed commands left in ``parent``, and make a new folder there."""
        remove_stale(parent)
        path = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        return cls(path, _locked(path))

    def close(self) -> None:
        """Remove it; harmless when repeated, or when somebody else removed it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_stale(parent: Path) -> None:
    """Remove the folders directly in ``parent`` that carry our lock file while nobody holds it."""
    with os.scandir(parent) as entries:
        folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    for folder in folders:
        with contextlib.suppress(OSError):  # no lock file of ours, held, or removed by another command just now
            lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """The held lock of a new folder; None on a file system without locks, where nothing is removed later.

    The file gets its name only when it is locked, so that nobody ever sees it free while its owner lives.
    """
    lock = os.open(folder / _UNFINISHED_LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / _UNFINISHED_LOCK_NAME).rename(folder / LOCK_NAME)
    except OSError:
        os.close(lock)
        return None
    return lock
