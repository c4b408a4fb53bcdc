"""A store with data, in SQLite or PostgreSQL, selected by environment settings."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.servers.postgres_server import database_on
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
    numbers = count()
    with ExitStack() as made:
        yield lambda: made.enter_context(database_on(postgresql_server, f"backup_{next(numbers)}"))


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
