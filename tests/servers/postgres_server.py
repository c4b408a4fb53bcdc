"""PostgreSQL databases for tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import NullPool, create_engine, make_url, text

from tests.store.postgresql_server import postgresql_folder, running_server


@contextmanager
def postgresql_server() -> Iterator[str]:
    """The URL of the given server, or of one that is started; skips the test without PostgreSQL."""
    given = os.environ.get("TUNEFARM_TEST_POSTGRES_URL")
    if given is not None:
        yield given
        return
    folder = postgresql_folder()
    if folder is None:
        pytest.skip("neither TUNEFARM_TEST_POSTGRES_URL nor a PostgreSQL to start")
    with running_server(folder) as url:
        yield url


@contextmanager
def database_on(server: str, name: str) -> Iterator[str]:
    """The URL of a new database, dropped afterwards."""
    url = make_url(server).set(drivername="postgresql+psycopg")
    own = f"tunefarm_{name}_{os.getpid()}"
    # One connection for creation and one for removal: a test may cut connections in between.
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {own}"))
    yield url.set(database=own).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {own} WITH (FORCE)"))


@contextmanager
def empty_database(name: str) -> Iterator[str]:
    """The URL of a new database on a server for this test."""
    with postgresql_server() as server, database_on(server, name) as url:
        yield url
