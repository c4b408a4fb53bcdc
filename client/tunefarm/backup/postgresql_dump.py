"""Dump and restore of a PostgreSQL database with PostgreSQL's tools."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Engine, MetaData, create_engine, func, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError

from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.store.database.database import parse_url

_DEFAULT_FOLDER: Final = Path("/usr/lib/postgresql")
_CLOSING_S: Final = 5.0
"""A busy server lists a connection for some time after its client has closed it."""


class PostgresqlDump:
    """A database of a PostgreSQL server."""

    def __init__(self, url: str) -> None:
        self._url = parse_url(url)

    def write(self, destination: Path) -> None:
        """Dump a consistent snapshot of the database. Raises BadInput if pg_dump is missing or fails."""
        self._run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={destination}")

    def rows(self) -> int:
        """The number of rows in the database; 0 without tables."""
        engine = create_engine(self._url)
        try:
            tables = MetaData()
            tables.reflect(engine)
            counted = [table for name, table in tables.tables.items() if name != "alembic_version"]
            with engine.connect() as connection:
                return sum(connection.execute(select(func.count()).select_from(one)).scalar_one() for one in counted)
        except SQLAlchemyError as error:
            raise self._unreachable(error) from error
        finally:
            engine.dispose()

    def read(self, source: Path) -> None:
        """Replace the database by the dump.

        Raises:
            BadInput: pg_restore is missing or fails, or other connections are open.
        """
        # Check that pg_restore can read the dump before dropping anything.
        self._run("pg_restore", "--list", str(source), connected=False)
        self._drop_tables()
        self._run("pg_restore", "--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error", str(source))

    def _drop_tables(self) -> None:
        engine = create_engine(self._url)
        try:
            _require_unused(engine)
            with engine.begin() as connection:
                for name in inspect(connection).get_table_names():
                    quoted = connection.dialect.identifier_preparer.quote(name)
                    connection.execute(text(f"DROP TABLE {quoted} CASCADE"))
        except SQLAlchemyError as error:
            raise self._unreachable(error) from error
        finally:
            engine.dispose()

    def _run(self, tool: str, *arguments: str, connected: bool = True) -> None:
        url = self._url.set(drivername="postgresql", password=None)
        where = [f"--dbname={url.render_as_string(hide_password=False)}"] if connected else []
        environment = {**os.environ, "PGCONNECT_TIMEOUT": "10"}
        if self._url.password is not None:
            # Every user of this host could read it on the command line.
            environment["PGPASSWORD"] = str(self._url.password)
        done = subprocess.run(
            [str(_tool(tool)), *where, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
            problem = f"{tool} failed: {lines[0].removeprefix(f'{tool}: ')}."
            raise BadInput("TUNEFARM_DATABASE_URL", problem, f"Use a {tool} that is as new as the server.")

    def _unreachable(self, error: SQLAlchemyError) -> BadInput:
        reason = str(getattr(error, "orig", error)).strip().splitlines()[0]
        where = _shown(self._url)
        return BadInput("TUNEFARM_DATABASE_URL", f"{where} does not answer: {reason}.", "Check that it is running.")


def _require_unused(engine: Engine) -> None:
    """Require that no other connection is open. Waits for those that were just closed, ours included."""
    until_s = time.monotonic() + _CLOSING_S
    while number := _other_connections(engine):
        if time.monotonic() > until_s:
            problem = f"{number} other connections use the database."
            raise BadInput("TUNEFARM_DATABASE_URL", problem, "Stop every API, tuner and command first.")
        time.sleep(0.1)


def _other_connections(engine: Engine) -> int:
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with engine.connect() as connection:
        return int(connection.execute(text(f"{others} AND backend_type = 'client backend'")).scalar_one())


def _shown(url: URL) -> str:
    return url.render_as_string(hide_password=True)


def _tool(name: str) -> Path:
    """The newest version of a PostgreSQL tool on this host. Raises BadInput if none is installed."""
    versions = sorted(_DEFAULT_FOLDER.glob(f"*/bin/{name}"), key=lambda path: path.parts[-3].zfill(4), reverse=True)
    found = versions[0] if versions else shutil.which(name)
    if found is None:
        fix = "Install PostgreSQL's client programs of the server's version or newer, or run this on the server's host."
        raise BadInput("TUNEFARM_DATABASE_URL", f"a PostgreSQL database requires {name}, which is not installed.", fix)
    return Path(found)
