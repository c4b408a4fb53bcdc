"""Empty databases: new ones are copied from one that the product created, and used ones lose all rows."""

import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

from sqlalchemy import Engine

from tunefarm_services.store import Store
from tunefarm_services.store.tables import Table

NAME = "tunefarm.db"
_WITHOUT_ROWS = "".join(f'DELETE FROM "{table.name}";' for table in reversed(Table.metadata.sorted_tables))
_BUSY_S = 60.0


def new_database(folder: Path) -> str:
    """The URL of an empty SQLite database in ``folder``. Creating its tables takes most of the time of a new store."""
    path = folder / NAME
    path.touch(0o600)
    path.write_bytes(_created())
    return f"sqlite:///{path}"


@cache
def _created() -> bytes:
    with tempfile.TemporaryDirectory(prefix="tunefarm-database-") as folder:
        Store.open(f"sqlite:///{folder}/{NAME}", Path(folder) / "blobs").close()
        assert not list(Path(folder).glob(f"{NAME}-*")), "the log belongs to the database"
        return (Path(folder) / NAME).read_bytes()


def empty_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=_BUSY_S)) as connection:
        connection.executescript(f"BEGIN IMMEDIATE;{_WITHOUT_ROWS}COMMIT;")


def empty_postgresql(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(_WITHOUT_ROWS)
