"""A fresh SQLite store for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.empty_database import new_database
from tunefarm_services.store import Store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/tunefarm.db"


@pytest.fixture
def store(url: str, tmp_path: Path) -> Iterator[Store]:
    database = new_database(tmp_path)
    assert database == url
    opened = Store.open(database, tmp_path / "blobs")
    yield opened
    opened.close()
