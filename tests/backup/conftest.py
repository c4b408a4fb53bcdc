"""A store with data, in SQLite or PostgreSQL, selected by environment settings."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from tests.store.postgresql_server import postgresql_folder, running_server
from tunefarm_services.settings import Settings


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    folder = postgresql_folder()
    if folder is None or not Path("/usr/lib/postgresql").is_dir():
        pytest.skip("no PostgreSQL with pg_dump on this machine")
    with running_server(folder) as url:
        yield url


@pytest.fixture
def new_database(postgresql_server: str) -> Iterator[Callable[[], str]]:
    """Create another empty database on the server, and return its URL."""
    engine = create_engine(
        make_url(postgresql_server).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    made: list[str] = []

    def make() -> str:
        made.append(f"tunefarm_backup_{os.getpid()}_{len(made)}")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {made[-1]}"))
        return make_url(postgresql_server).set(database=made[-1]).render_as_string(hide_password=False)

    yield make
    with engine.connect() as connection:
        for name in made:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_settings(request, tmp_path: Path) -> Callable[[], Settings]:
    """Settings of a new, empty store."""
    number = 0

    def make() -> Settings:
        nonlocal number
        number += 1
        home = tmp_path / f"home{number}"
        if request.param == "sqlite":
            return Settings(home=home)
        return Settings(home=home, database_url=request.getfixturevalue("new_database")())

    return make


@pytest.fixture
def new_sqlite_settings(tmp_path: Path) -> Callable[[str], Settings]:
    return lambda name: Settings(home=tmp_path / name)
