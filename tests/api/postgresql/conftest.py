"""The same API over PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import create_engine, make_url

from tests.servers.postgres_server import empty_database
from tunefarm_services.api.application.app import create_app
from tunefarm_services.api.intake.intake import Intake
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.store import Store
from tunefarm_services.store.tables import Table


@pytest.fixture(scope="package")
def database_url() -> Iterator[str]:
    with empty_database("api") as url:
        yield url


@pytest.fixture(scope="package")
def shared_store(database_url: str, home: Path) -> Iterator[Store]:
    opened = Store.open(database_url, home / "blobs-postgresql")
    yield opened
    opened.close()


@pytest.fixture
def store(database_url: str, shared_store: Store) -> Iterator[Store]:
    yield shared_store
    engine = create_engine(make_url(database_url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        for table in reversed(Table.metadata.sorted_tables):
            connection.execute(table.delete())
    engine.dispose()


@pytest.fixture(scope="package")
def app(shared_store: Store, settings: ApiSettings, intake: Intake) -> FastAPI:
    return create_app(shared_store, settings, intake=intake)
