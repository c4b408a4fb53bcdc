"""The migrations create exactly the tables that the code declares."""

from pathlib import Path

from alembic import command
from sqlalchemy import create_engine

from tunefarm_services.store.database.migrate import configuration, migrate


def test_migrations_create_the_declared_tables(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'empty.sqlite'}")
    with engine.begin() as connection:
        migrate(connection, "head")
    with engine.connect() as connection:
        command.check(configuration(connection))
    engine.dispose()
