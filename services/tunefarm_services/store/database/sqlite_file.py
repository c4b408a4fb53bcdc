"""Checks and atomic creation of a SQLite file.

SQLite treats an empty file as a new database and rewrites the header of any database it opens. Without these checks it
would silently replace a lost store or another program's database.
"""

import contextlib
import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tunefarm_sandbox.channel.private_files import make_private_folder, require_own_link, tighten_file
from tunefarm_services.store.store_error import StoreUnavailable

SIDECARS: Final = ("-wal", "-shm", "-journal")
_MAGIC: Final = b"SQLite format 3\x00"
_RESTORE: Final = "Restore it from a backup, or move it away to begin a new store."


def prepare_file(path: Path, *, create: bool, make: Callable[[Path], None], busy_timeout_s: float) -> None:
    """Ensure that ``path`` is a usable database that only its owner can access. The check itself changes no file.

    Args:
        path: of the database.
        create: create a missing database. ``make`` writes it to another path; it appears at ``path`` complete.
        make: writes a new database to the given path.
        busy_timeout_s: how long to wait for another process's lock, in seconds.

    Raises:
        StoreUnavailable: the database is missing, damaged, of another program, or not accessible.
    """
    try:
        require_own_link(path)
        if not path.exists():
            if not create:
                raise StoreUnavailable(
                    f"There is no database at {path}.", "Run a command that creates it: tunefarm tune"
                )
            _create(path, make)
        _require_database(path)
        for sidecar in SIDECARS:
            _require_plain(path.with_name(path.name + sidecar))
            tighten_file(path.with_name(path.name + sidecar))
        tighten_file(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        fix = "Check that its folder exists and that you may read and write there."
        raise StoreUnavailable(f"Cannot open {path}: {reason}.", fix) from error
    _require_ours(path, busy_timeout_s)


def _create(path: Path, make: Callable[[Path], None]) -> None:
    """Create the database under another name and link it into place.

    A killed command then leaves no partial store, and of two concurrent creators, the second uses the first's file.
    """
    try:
        if not path.parent.is_dir():
            make_private_folder(path.parent)
    except OSError as error:
        raise StoreUnavailable(f"Cannot create {path.parent}: {error.strerror}.", "Choose another folder.") from error
    with tempfile.TemporaryDirectory(prefix=".new-store-", dir=path.parent) as folder:
        new = Path(folder) / path.name
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        make(new)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(new)


def _require_database(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise StoreUnavailable(f"{path} is not a file.", "Move it away, or choose another TUNEFARM_HOME.")
        if found.st_size == 0:
            raise StoreUnavailable(f"{path} is empty: its content is lost.", _RESTORE)
        if os.pread(descriptor, len(_MAGIC), 0) != _MAGIC:
            raise StoreUnavailable(f"{path} is not a usable database: it is not a SQLite file.", _RESTORE)
    finally:
        os.close(descriptor)
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        problem = f"Cannot open {path}: no permission to write to it or to its folder."
        raise StoreUnavailable(problem, "Check their owner and permissions.")


def _require_plain(sidecar: Path) -> None:
    """Refuse a link in place of the log: SQLite follows it and writes to its target."""
    try:
        found = sidecar.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnavailable(f"{sidecar} is not a SQLite file.", "Move it away.")


def _require_ours(path: Path, busy_timeout_s: float) -> None:
    """Inspect the database without writing: a normal open would rewrite the header of another program's database."""
    wal = path.with_name(path.name + "-wal")
    # Without a log there is nothing to recover, and an immutable open creates no files beside the database. With a log,
    # SQLite must read it too, and writes only the shared-memory file.
    mode = "mode=ro" if wal.exists() else "mode=ro&immutable=1"
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=busy_timeout_s)
        ) as connection:
            (pages,), (page_bytes,) = (
                connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
            )
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return  # its holder has already checked it, and opening it waits for the lock
        raise StoreUnavailable(f"Cannot open {path}: {error}.", _RESTORE) from error
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"{path} is not a usable database: {error}.", _RESTORE) from error
    if not wal.exists() and pages * page_bytes > path.stat().st_size:
        raise StoreUnavailable(f"{path} is not a usable database: the file is truncated.", _RESTORE)
    if tables and "alembic_version" not in tables:
        raise StoreUnavailable(f"The database {path} belongs to another program.", "Choose another TUNEFARM_HOME.")
