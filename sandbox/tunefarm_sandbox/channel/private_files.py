"""Files and folders that only their owner can read, made so from their first instant and kept so."""

import os
import stat
from pathlib import Path
from typing import Final

OTHERS: Final = 0o077
"""The permissions of group and others."""


def make_private_folder(folder: Path) -> None:
    """Make ``folder``, and what is missing above it, for its owner only; take others' permissions from an existing one.

    Of a folder that belongs to another user, or that many users share (the sticky bit), the permissions stay.

    Raises:
        OSError: it cannot be made, is no folder, or is reached through another user's symbolic link.
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
    """Take the permissions of others from a regular file that belongs to this process's user; others' files stay.

    A missing file is none of its business.

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
    """Put a file in place whole, readable by its owner only. A link that lies there is replaced, never followed.

    Another ``mode``, less what the umask takes away, makes a file for others too.

    Raises:
        OSError: it cannot be written; what was there before stays.
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
    """Refuse a symbolic link that another user made: whoever plants one chooses which file is written.

    Raises:
        PermissionError: it is one.
    """
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(found.st_mode) and found.st_uid not in {os.geteuid(), 0}:
        raise PermissionError(1, "a symbolic link of another user lies there", str(path))


def is_open_to_others(path: Path) -> bool:
    """Whether anyone but its owner has permissions on a file or folder."""
    try:
        return bool(path.stat().st_mode & OTHERS)
    except OSError:
        return False


def _tighten(descriptor: int) -> None:
    found = os.fstat(descriptor)
    is_shared = bool(found.st_mode & stat.S_ISVTX)
    if found.st_uid == os.geteuid() and found.st_mode & OTHERS and not is_shared:
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & ~OTHERS)
