"""Files given by the user: only regular files are read, and writes are atomic."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from tunefarm_schemas.bad_input import BadInput

LARGEST_FILE_BYTES: Final = 64 << 20
STORAGE_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def require_named(field: str, text: str, what: str) -> None:
    """Reject an empty name, which would mean the current folder. ``what`` is "file" or "folder".

    Raises:
        BadInput: for ``field``.
    """
    if not text.strip():
        present = ", or '.' for the current one" if what == "folder" else ""
        raise BadInput(field, f"the {what} has no name.", f"Give a {what}{present}.")


def open_plain_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    A pipe without a writer would hang the command, and a device such as /dev/zero would fill its memory. The type is
    checked after opening, because the file at a path may change between a check and the opening.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return file


def read_plain_file(path: Path, *, limit_bytes: int = LARGEST_FILE_BYTES) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: the file cannot be read, is not a regular file, or is larger than ``limit_bytes``.
    """
    with open_plain_file(path) as file:
        is_known_larger = os.fstat(file.fileno()).st_size > limit_bytes  # gigabytes take seconds to read
        content = b"" if is_known_larger else file.read(limit_bytes + 1)
    if is_known_larger or len(content) > limit_bytes:  # it may have grown since
        raise OSError(errno.EFBIG, f"is larger than {limit_bytes >> 20} MiB", str(path))
    return content


def put_file(path: Path, content: bytes, *, field: str = "output") -> None:
    """Write a result atomically. Follows the user's own symbolic link; rejects one of another user.

    Raises:
        BadInput: the file cannot be written; an existing file stays unchanged.
        OSError: the disk is full.
    """
    from tunefarm_sandbox.channel.private_files import require_own_link, write_private_file

    try:
        require_own_link(path)
        place = path.resolve()
        if place.exists() and not place.is_file():
            place.write_bytes(content)  # such as /dev/stdout
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        write_private_file(place, content, mode=0o666)
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in STORAGE_FULL:
            raise
        reason = getattr(error, "strerror", None) or error
        raise BadInput(field, f"{str(path)[:300]!r} cannot be written ({reason}).", "Give another path.") from error
