"""Every kind of store that must keep the contract, empty for each test."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from tests.store.postgresql_server import postgresql_folder, running_server
from tunefarm_services.store import Store
from tunefarm_services.store.tables import Table


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A database for this test run, shared by its tests because creating one takes half a second."""
    given = os.environ.get("TUNEFARM_TEST_POSTGRES_URL")
    folder = postgresql_folder()
    with ExitStack() as stack:
        if given is None and folder is None:
            pytest.skip("neither TUNEFARM_TEST_POSTGRES_URL nor a PostgreSQL to start")
        server = given or stack.enter_context(running_server(folder))
        url = make_url(server).set(drivername="postgresql+psycopg")
        name = f"tunefarm_test_{os.getpid()}"
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
            yield url.set(database=name).render_as_string(hide_password=False)
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/tunefarm.db"
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
