"""Every kind of store that must keep the contract, empty for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from tests.servers.postgres_server import database_on, postgresql_server
from tunefarm_services.store import Store
from tunefarm_services.store.tables import Table


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with postgresql_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgresql_url(server: str) -> Iterator[str]:
    """A database for this test run, shared by its tests because creating one takes half a second."""
    with database_on(server, "test") as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/tunefarm.db"
        return
    if request.param == "new postgresql":
        with database_on(request.getfixturevalue("server"), "new") as url:
            yield url
        return
    url = request.getfixturevalue("postgresql_url")
    yield url
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in reversed(Table.metadata.sorted_tables):
            connection.execute(table.delete())
    engine.dispose()


@pytest.fixture
def open_store(database_url: str, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Open another connection to the test's store, as another process does."""
    opened: list[Store] = []

    def open_another() -> Store:
        opened.append(Store.open(database_url, tmp_path / "blobs", busy_timeout_s=60.0))
        return opened[-1]

    yield open_another
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    return open_store()
