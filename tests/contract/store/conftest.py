"""Every kind of store that must keep the contract, empty for each test."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import Engine, NullPool, create_engine

from tests.servers.postgres_server import database_on, postgresql_server
from tests.store.empty_database import empty_postgresql, new_database
from tunefarm_services.store import Store

QUICK_KIND: Final = {
    **dict.fromkeys(
        ("test_store_access.py", "test_store_bundles.py", "test_store_finish.py", "test_store_sharing.py"), "sqlite"
    ),
    **dict.fromkeys(("test_store_fleet.py", "test_store_polling.py", "test_store_retuning.py"), "sqlite"),
    **dict.fromkeys(("test_lane_history.py", "test_store_releases.py", "test_store_input_examples.py"), "sqlite"),
    **dict.fromkeys(("test_store_records.py", "test_store_farm.py", "test_store_retention.py"), "sqlite"),
    "test_store_pages.py": "postgresql",
}
"""Files of tests that ``make test`` runs on one kind, since their statements are plain.

Concurrent ones, and those that open a store more than once, run on both: they may lock each other out.
"""


@pytest.hookimpl(tryfirst=True)  # before cases are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        kind = QUICK_KIND.get(item.path.name)
        if kind is None or not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        is_shared = "open_store" in inspect.signature(item.function).parameters or "concurrent" in item.name
        if item.callspec.params.get("database_url", kind) != kind and not is_shared:
            item.add_marker("extended")


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
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
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
