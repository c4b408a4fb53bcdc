"""Migrations up and down, and the refusal of databases of other versions."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from tests.other_process import OtherProcess
from tests.store.sample import TENANT, put_job
from tunefarm_services.store import DatabaseOutdated, DatabaseTooNew, Store, StoreUnavailable
from tunefarm_services.store.database.database import Database
from tunefarm_services.store.database.migrate import configuration
from tunefarm_services.store.database.schema_revision import NEEDED, REVISIONS, upgrade_to


def schema_of(path: Path) -> dict[str, list[str]]:
    """Name and definition of every table and index, with the constraints of each sorted."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: sorted(re.findall(r"[^,\s]+", sql.replace("(", " ( ").replace(")", " ) "))) for name, sql in rows}


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(url, busy_timeout_s=1)
    yield opened
    opened.close()


def test_new_database_has_same_schema_as_migrated_one(url: str, database: Database, tmp_path: Path):
    upgrade_to(database, NEEDED)
    Store.open(f"sqlite:///{tmp_path}/new.db", tmp_path / "blobs").close()
    assert schema_of(tmp_path / "new.db") == schema_of(tmp_path / "tunefarm.db")


def test_revisions_match_migration_scripts(database: Database):
    with database.reading() as connection:
        scripts = ScriptDirectory.from_config(configuration(connection))
        assert tuple(reversed([script.revision for script in scripts.walk_revisions()])) == REVISIONS


def test_migrations_are_reversible(database: Database, tmp_path: Path):
    upgrade_to(database, NEEDED)
    up = schema_of(tmp_path / "tunefarm.db")
    upgrade_to(database, "base")
    assert set(schema_of(tmp_path / "tunefarm.db")) == {"alembic_version"}
    upgrade_to(database, NEEDED)
    assert schema_of(tmp_path / "tunefarm.db") == up


def test_failed_migration_leaves_old_schema(database: Database, tmp_path: Path):
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE trials (stranger INTEGER)")
    before = schema_of(tmp_path / "tunefarm.db")
    with pytest.raises(StoreUnavailable, match="already exists"):
        upgrade_to(database, NEEDED)
    assert schema_of(tmp_path / "tunefarm.db") == before


@pytest.mark.parametrize("older", ["base", *REVISIONS[:-1]])
@pytest.mark.quick_cases(3)
def test_open_refuses_older_database_and_names_upgrade_command(
    url: str, database: Database, tmp_path: Path, older: str
):
    upgrade_to(database, NEEDED)
    upgrade_to(database, older)
    with pytest.raises(DatabaseOutdated, match="tunefarm db upgrade"):
        Store.open(url, tmp_path / "blobs")
    store = Store.open(url, tmp_path / "blobs", upgrade=True)
    assert store.revision() == NEEDED
    store.upgrade()
    assert store.jobs.page(TENANT) == []
    store.close()


def test_open_refuses_newer_database_without_changing_it(url: str, store: Store, tmp_path: Path):
    put_job(store)
    with closing(sqlite3.connect(tmp_path / "tunefarm.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    for upgrade in (False, True):
        with pytest.raises(DatabaseTooNew, match="9999"):
            Store.open(url, tmp_path / "blobs", upgrade=upgrade)


def test_open_without_create_creates_nothing(url: str, tmp_path: Path):
    with pytest.raises(StoreUnavailable, match="no database"):
        Store.open(url, tmp_path / "blobs", create=False)
    assert list(tmp_path.iterdir()) == []


def test_concurrent_creators_share_one_database(url: str, tmp_path: Path):
    children = [OtherProcess(lambda: Store.open(url, tmp_path / "blobs").revision()).begin() for _ in range(3)]
    assert [child.answer() for child in children] == [NEEDED] * 3
