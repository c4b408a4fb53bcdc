"""Online backup and restore of a SQLite database."""

import contextlib
import sqlite3
from pathlib import Path

from tunefarm_sandbox.channel.private_files import make_private_folder, write_private_file
from tunefarm_schemas.bad_input import BadInput


class SqliteDump:
    """A SQLite database."""

    def __init__(self, path: Path, busy_timeout_s: float) -> None:
        self._path = path
        self._busy_timeout_s = busy_timeout_s

    def write(self, destination: Path) -> None:
        """Copy a consistent snapshot of the database without blocking writers."""
        with self._connected(self._path) as source, self._connected(destination) as copy:
            source.backup(copy)

    def rows(self) -> int:
        """The number of rows in the database; 0 if it does not exist."""
        if not self._path.exists():
            return 0
        try:
            return self._counted()
        except sqlite3.DatabaseError as error:
            problem = f"{self._path} is not a usable database: {error}."
            raise BadInput("TUNEFARM_HOME", problem, "Move it away, then restore.") from error

    def _counted(self) -> int:
        with self._connected(self._path) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            counted = (name for name in tables if name != "alembic_version" and not name.startswith("sqlite_"))
            # The names come from the database itself.
            return sum(connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in counted)  # noqa: S608

    def read(self, source: Path) -> None:
        """Replace the database by the copy in one transaction: readers see either the old or the new contents."""
        make_private_folder(self._path.parent)
        if not self._path.exists():
            write_private_file(self._path, b"")  # SQLite would create it readable for others
        with self._connected(source) as copy, self._connected(self._path) as database:
            self._check(copy)
            try:
                # All pages in one step: a write between two steps would restart the copy.
                copy.backup(database, pages=-1)
            except sqlite3.OperationalError as error:
                problem = f"{self._path} cannot be replaced: {error}."
                raise BadInput("TUNEFARM_HOME", problem, "Stop the processes that use it.") from error

    @staticmethod
    def _check(copy: sqlite3.Connection) -> None:
        try:
            (found,) = copy.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            found = str(error)
        if found != "ok":
            raise BadInput("file", f"the database in it is damaged: {found}.", "Use another backup.")

    def _connected(self, path: Path) -> "contextlib.closing[sqlite3.Connection]":
        return contextlib.closing(sqlite3.connect(path, timeout=self._busy_timeout_s))
