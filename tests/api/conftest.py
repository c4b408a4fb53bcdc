"""An API over a fresh SQLite store, with tokens of two tenants, and one intake for the whole run."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from tests.api.people import Person, caller_of, person_of
from tests.store.empty_database import empty_sqlite
from tunefarm_services.api.application.app import create_app
from tunefarm_services.api.intake.intake import Intake
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.store import Store


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="session")
def shared_store(home: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs")
    yield opened
    opened.close()


@pytest.fixture
def store(home: Path, shared_store: Store) -> Iterator[Store]:
    """An empty store, emptied after each test: a new one with its app takes a quarter of a second."""
    yield shared_store
    empty_sqlite(home / "tunefarm.db")


@pytest.fixture(scope="session")
def intake() -> Iterator[Intake]:
    reading = Intake(ApiSettings())
    reading.start()
    yield reading
    reading.close()


@pytest.fixture(scope="session")
def settings(home: Path) -> ApiSettings:
    return ApiSettings(home=home, rate_limit="100000/second", refused_rate_limit="100000/second")


@pytest.fixture(scope="session")
def app(shared_store: Store, settings: ApiSettings, intake: Intake) -> FastAPI:
    return create_app(shared_store, settings, intake=intake)


@pytest.fixture
def stranger(app: FastAPI) -> Person:
    """A caller without a token."""
    return caller_of(app)


@pytest.fixture
def alice(app: FastAPI, store: Store) -> Person:
    return person_of(app, store, "alice")


@pytest.fixture
def bob(app: FastAPI, store: Store) -> Person:
    return person_of(app, store, "bob")


@pytest.fixture
def app_with(store: Store, settings: ApiSettings, intake: Intake) -> Callable[..., FastAPI]:
    """An app with some settings changed."""

    def make(**changes: object) -> FastAPI:
        return create_app(store, settings.model_copy(update=changes), intake=intake)

    return make
