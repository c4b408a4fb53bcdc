"""A PostgreSQL database for one test."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from sqlalchemy import NullPool, create_engine, make_url, text

from tests.store.postgresql_server import postgresql_folder, running_server


@contextmanager
def empty_database(name: str) -> Iterator[str]:
    """The URL of a new database, dropped afterwards; skips the test without PostgreSQL."""
    given = os.environ.get("TUNEFARM_TEST_POSTGRES_URL")
    folder = postgresql_folder()
    with ExitStack() as stack:
        if given is None:
            if folder is None:
                pytest.skip("neither TUNEFARM_TEST_POSTGRES_URL nor a PostgreSQL to start")
            given = stack.enter_context(running_server(folder))
        url = make_url(given).set(drivername="postgresql+psycopg")
        own = f"tunefarm_{name}_{os.getpid()}"
        # One connection for creation and one for removal: a test may cut connections in between.
        engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {own}"))
        yield url.set(database=own).render_as_string(hide_password=False)
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {own} WITH (FORCE)"))
