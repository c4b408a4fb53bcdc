"""One SQL database: connections, transactions, and errors that name a remedy."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from typing import Final, cast

from pydantic import ValidationError
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, NoSuchModuleError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.store.store_error import RowDamaged, StoreUnavailable, TransactionLost

_IS_WRITING: Final = "tunefarm_is_writing"

# Settings of each PostgreSQL session. No statement takes seconds; a client that hangs in a transaction, or a network
# that drops packets, must not hold locks for ever.
_SESSION: Final = {
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
}
_KEEPALIVE: Final = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_POOL_SIZE: Final = 10
_POOL_OVERFLOW: Final = 30
_POOL_RECYCLE_S: Final = 1800

# Per connection, and a process may have a dozen: enough for the hottest pages. The kernel's page cache holds the others
# once for all processes, a few microseconds away.
_SQLITE_CACHE_KIB: Final = 2_048

_SERIALIZATION_FAILURE: Final = "40001"
_DEADLOCK: Final = "40P01"
_FOREIGN_KEY_VIOLATION: Final = "23503"
_MAX_CHARACTERS: Final = 300


class Database:
    """An engine with read and write transactions. May be used from several threads.

    A read transaction sees one snapshot. In SQLite, a write transaction takes the only write lock at its start, so
    that it never fails half way because another writer holds it.
    """

    def __init__(self, url: str, *, busy_timeout_s: float) -> None:
        """Prepare ``url`` without connecting. Raises BadInput for a URL of an unsupported database."""
        self.url = parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._busy_timeout_s = busy_timeout_s
        if self.is_sqlite:
            self._engine = self._snapshots = self._sqlite_engine()
        else:
            self._engine = self._postgresql_engine()
            # By default, each statement of a transaction sees what was committed before it.
            self._snapshots = self._engine.execution_options(isolation_level="REPEATABLE READ")
        # A fair queue for the threads of this process; SQLite's busy handler sleeps and is not fair.
        self._write_lock = threading.Lock()

    @property
    def path(self) -> Path | None:
        """The file of a SQLite database."""
        return Path(self.url.database or "") if self.is_sqlite else None

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one snapshot of the database. Raises StoreUnavailable."""
        with self._database_errors(), self._snapshots.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that commits at the end of the block or changes nothing. Raises StoreUnavailable."""
        with self._database_errors():
            if not self.is_sqlite:
                with self._engine.begin() as connection:
                    yield connection
                return
            with self._write_lock, self._engine.connect() as connection:
                connection.info[_IS_WRITING] = True
                with connection.begin():
                    yield connection

    @contextmanager
    def row_errors(self) -> Iterator[None]:
        """Raise RowDamaged where a row cannot be converted to its noun. Every transaction includes this."""
        try:
            yield
        except (ValidationError, JSONDecodeError) as error:
            raise RowDamaged(self._where, " ".join(str(error).split())[:_MAX_CHARACTERS]) from error

    def now_s(self, connection: Connection) -> float:
        """Seconds since the Unix epoch, by the clock that all clients of this database share."""
        if self.is_sqlite:
            return time.time()
        return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())

    def lock_blobs(self, connection: Connection, *, exclusive: bool) -> None:
        """Block, until this transaction ends, transactions that remove blobs (if exclusive, also those that add).

        In SQLite the write lock already does that.
        """
        if not self.is_sqlite:
            function = "pg_advisory_xact_lock" if exclusive else "pg_advisory_xact_lock_shared"
            connection.execute(text(f"SELECT {function}(7305809)"))

    def lock_releases(self, connection: Connection) -> None:
        """Block other transactions that publish or prune releases. In SQLite the write lock already does that."""
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(7305811)"))

    def lock_tenant(self, connection: Connection, tenant: str) -> None:
        """Block other transactions that count what a tenant has, to add to it. In SQLite the write lock already does.

        Take it first, because others may wait for it while they hold nothing.
        """
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(7305812, hashtext(:tenant))"), {"tenant": tenant})

    def lift_time_limits(self, connection: Connection) -> None:
        """Lift the time limits for the rest of this transaction, such as a migration of many rows."""
        if not self.is_sqlite:
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))

    def lock_schema(self, connection: Connection) -> None:
        """Block other transactions that create or upgrade the tables. In SQLite the write lock already does that."""
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(7305810)"))

    @contextmanager
    def _database_errors(self) -> Iterator[None]:
        try:
            with self.row_errors():
                yield
        except (DataError, OverflowError) as error:
            raise BadInput(
                "value", f"The database cannot hold it: {error}.", "Use text without NUL, and numbers below 2**31."
            ) from error
        except (IntegrityError, ProgrammingError) as error:
            if getattr(error.orig, "sqlstate", None) != _FOREIGN_KEY_VIOLATION:
                raise
            # Another transaction removed the row that this one refers to, or refers to the row that this one removes.
            raise TransactionLost(f"Another transaction interfered: {error.orig}.", "Try again.") from error
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) in (_DEADLOCK, _SERIALIZATION_FAILURE):
                raise TransactionLost(f"Another transaction interfered: {error.orig}.", "Try again.") from error
            raise self._unavailable(str(error.orig)) from error
        except PoolTimeout as error:
            raise self._unavailable("all connections of this process are busy") from error
        except sqlite3.DatabaseError as error:
            # Raised unwrapped while a connection is being prepared.
            raise self._unavailable(str(error)) from error

    @property
    def _where(self) -> str:
        return str(self.path) if self.is_sqlite else self.url.render_as_string(hide_password=True)

    def _unavailable(self, reason: str) -> StoreUnavailable:
        where = self._where
        if "locked" in reason:
            problem = f"The database {where} stayed locked for {self._busy_timeout_s:g} s."
            return StoreUnavailable(problem, "Another process holds it; stop that process, or wait.")
        if "full" in reason or "disk I/O" in reason:
            return StoreUnavailable(f"Cannot write to {where}: {reason}.", "Free some space on that disk.")
        if "unable to open" in reason or "readonly" in reason:
            return StoreUnavailable(
                f"Cannot open {where}: {reason}.", "Check that its folder exists and that you may write there."
            )
        if "not a database" in reason or "malformed" in reason:
            return StoreUnavailable(f"{where} is not a usable database: {reason}.", "Restore it from a backup.")
        return StoreUnavailable(f"The database {where} does not answer: {reason.strip()}.", "Check that it is running.")

    def _sqlite_engine(self) -> Engine:
        engine = create_engine(
            self.url,
            poolclass=QueuePool,
            pool_size=_POOL_SIZE,
            max_overflow=_POOL_OVERFLOW,
            pool_timeout=self._busy_timeout_s,
            connect_args={"timeout": self._busy_timeout_s},
        )
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _postgresql_engine(self) -> Engine:
        # Parameters of the URL take precedence: an administrator may need other values.
        given = self.url.query
        session = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
        defaults: dict[str, object] = {**_KEEPALIVE, "options": session, "application_name": "tunefarm"}
        return create_engine(
            self.url,
            pool_pre_ping=True,
            pool_size=_POOL_SIZE,
            max_overflow=_POOL_OVERFLOW,
            pool_timeout=self._busy_timeout_s,
            pool_recycle=_POOL_RECYCLE_S,
            connect_args={name: value for name, value in defaults.items() if name not in given},
        )


def parse_url(url: str) -> URL:
    """The database's URL with the driver filled in. Raises BadInput."""
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise BadInput(
            "TUNEFARM_DATABASE_URL", "It is not a database URL.", "Write sqlite:////path/file.db or postgresql://..."
        ) from error
    if backend == "sqlite" and parsed.database not in (None, "", ":memory:") and "uri" not in parsed.query:
        return parsed
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise BadInput(
        "TUNEFARM_DATABASE_URL",
        "Only SQLite in a file and PostgreSQL are supported.",
        "Write sqlite:////path/file.db or postgresql://...",
    )


def _prepare_sqlite(dbapi_connection: object, _entry: ConnectionPoolEntry) -> None:
    connection = cast("sqlite3.Connection", dbapi_connection)
    # Transactions begin in _begin_sqlite, not where the driver guesses.
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute(f"PRAGMA cache_size=-{_SQLITE_CACHE_KIB}")


def _begin_sqlite(connection: Connection) -> None:
    # Straight to the driver: this runs before every query, and SQLAlchemy's layers would take a tenth of its time.
    driver_connection = cast("sqlite3.Connection", connection.connection.driver_connection)
    driver_connection.execute("BEGIN IMMEDIATE" if connection.info.pop(_IS_WRITING, False) else "BEGIN")
