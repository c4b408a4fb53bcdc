"""The file of a SQLite database: looked at before SQLite touches it, and made whole.

SQLite takes an empty file for a new database and rewrites the header of any database it is asked to open, so a store
that was lost or belongs to another program would be replaced without a word.
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
    """Leave a usable database at ``path``, for its owner only, or say why there is none. No file is changed by that.

    Args:
        path: of the database.
        create: make a missing one, by ``make`` at another path; it appears at ``path`` whole.
        make: writes a new database to the path it is given.
        busy_timeout_s: how long to wait for another process's lock, in seconds.

    Raises:
        StoreUnavailable: it is missing, damaged, of another program, or may not be used.
    """
    try:
        require_own_link(path)
        if not path.exists():
            if not create:
                raise StoreUnavailable(
                    f"There is no database at {path}.", "Run a command that creates it: tunefarm tune"
                )
            _made(path, make)
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


def _made(path: Path, make: Callable[[Path], None]) -> None:
    """Make the database under another name and link it into place.

    A killed command leaves no half a store, and of two that begin together, the second uses what the first has made.
    """
    try:
        if not path.parent.is_dir():
            make_private_folder(path.parent)
    except OSError as error:
        raise StoreUnavailable(f"Cannot make {path.parent}: {error.strerror}.", "Choose another folder.") from error
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
            raise StoreUnavailable(f"{path} is empty: what was stored in it is lost.", _RESTORE)
        if os.pread(descriptor, len(_MAGIC), 0) != _MAGIC:
            raise StoreUnavailable(f"{path} is not a usable database: it is not one of SQLite.", _RESTORE)
    finally:
        os.close(descriptor)
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        problem = f"Cannot open {path}: it, or its folder, may not be written."
        raise StoreUnavailable(problem, "Check whom they belong to.")


def _require_plain(sidecar: Path) -> None:
    """SQLite follows a link that lies in the place of its log, and writes to where it leads."""
    try:
        found = sidecar.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnavailable(f"{sidecar} is not a file of SQLite's.", "Move it away.")


def _require_ours(path: Path, busy_timeout_s: float) -> None:
    """Look into the database without writing: opening it for use would rewrite the header of another program's."""
    wal = path.with_name(path.name + "-wal")
    # Without a log there is nothing to recover, and an immutable look leaves no files beside the database. With one,
    # SQLite must read the log as well; it keeps to the shared-memory file.
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
            return  # the one who holds it has found it usable, and opening it waits for its turn
        raise StoreUnavailable(f"Cannot open {path}: {error}.", _RESTORE) from error
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"{path} is not a usable database: {error}.", _RESTORE) from error
    if not wal.exists() and pages * page_bytes > path.stat().st_size:
        raise StoreUnavailable(f"{path} is not a usable database: its end is missing.", _RESTORE)
    if tables and "alembic_version" not in tables:
        raise StoreUnavailable(f"The database {path} belongs to another program.", "Choose another TUNEFARM_HOME.")
