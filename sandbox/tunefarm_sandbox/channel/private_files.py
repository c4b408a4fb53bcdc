"""Files and folders that only their owner can read, from the moment of their creation."""

import os
import stat
from pathlib import Path
from typing import Final

OTHERS: Final = 0o077
"""The permissions of group and others."""


def make_private_folder(folder: Path) -> None:
    """Create ``folder`` and its missing parents for the owner only; on an existing one, remove others' permissions.

    Leaves the permissions of a folder that belongs to another user or is shared (sticky bit).

    Raises:
        OSError: it cannot be created, is not a folder, or is reached through another user's symbolic link.
    """
    require_own_link(folder)
    if not folder.is_dir():
        if not folder.parent.exists():
            make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _tighten(descriptor)
    finally:
        os.close(descriptor)


def tighten_file(path: Path) -> None:
    """Remove others' permissions from a regular file that belongs to this process's user; leave files of other users.

    Does nothing for a missing file.

    Raises:
        OSError: it is another user's symbolic link, or cannot be opened.
    """
    require_own_link(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            _tighten(descriptor)
    finally:
        os.close(descriptor)


def write_private_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically with one that only its owner can read. Replaces a symbolic link, never follows it.

    Another ``mode``, masked by the umask, makes the file accessible to others.

    Raises:
        OSError: it cannot be written; the previous file stays.
    """
    unfinished = path.with_name(f".{path.name}.{os.urandom(4).hex()}.new")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def require_own_link(path: Path) -> None:
    """Refuse a symbolic link that another user made, who could otherwise choose which file is written.

    Raises:
        PermissionError: it is such a link.
    """
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(found.st_mode) and found.st_uid not in {os.geteuid(), 0}:
        raise PermissionError(1, "a symbolic link of another user lies there", str(path))


def is_open_to_others(path: Path) -> bool:
    """Whether users other than the owner have permissions on a file or folder."""
    try:
        return bool(path.stat().st_mode & OTHERS)
    except OSError:
        return False


def _tighten(descriptor: int) -> None:
    found = os.fstat(descriptor)
    is_shared = bool(found.st_mode & stat.S_ISVTX)
    if found.st_uid == os.geteuid() and found.st_mode & OTHERS and not is_shared:
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & ~OTHERS)
