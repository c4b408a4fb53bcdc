"""The same API over PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import Engine, create_engine, make_url

from tests.servers.postgres_server import empty_database
from tests.store.empty_database import empty_postgresql
from tunefarm_services.api.application.app import create_app
from tunefarm_services.api.intake.intake import Intake
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.store import Store


@pytest.fixture(scope="package")
def database_url() -> Iterator[str]:
    with empty_database("api") as url:
        yield url


@pytest.fixture(scope="package")
def shared_store(database_url: str, home: Path) -> Iterator[Store]:
    opened = Store.open(database_url, home / "blobs-postgresql")
    yield opened
    opened.close()


@pytest.fixture(scope="package")
def engine(database_url: str) -> Iterator[Engine]:
    made = create_engine(make_url(database_url).set(drivername="postgresql+psycopg"))
    yield made
    made.dispose()


@pytest.fixture
def store(engine: Engine, shared_store: Store) -> Iterator[Store]:
    yield shared_store
    empty_postgresql(engine)


@pytest.fixture(scope="package")
def app(shared_store: Store, settings: ApiSettings, intake: Intake) -> FastAPI:
    return create_app(shared_store, settings, intake=intake)
