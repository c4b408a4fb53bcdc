"""Every kind of store that must keep the contract, empty for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, NullPool, create_engine

from tests.servers.postgres_server import database_on, postgresql_server
from tests.store.empty_database import empty_postgresql, new_database
from tunefarm_services.store import Store


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with postgresql_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgresql_url(server: str) -> Iterator[str]:
    """A database for this test run, shared by its tests because creating one takes half a second."""
    with database_on(server, "test") as url:
        yield url


@pytest.fixture(scope="session")
def engine(postgresql_url: str) -> Iterator[Engine]:
    """Without a pool: tests cut connections, and count them."""
    made = create_engine(postgresql_url, poolclass=NullPool)
    yield made
    made.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield new_database(tmp_path)
        return
    if request.param == "new postgresql":
        with database_on(request.getfixturevalue("server"), "new") as url:
            yield url
        return
    engine = request.getfixturevalue("engine")
    yield request.getfixturevalue("postgresql_url")
    empty_postgresql(engine)


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
