"""The schema revision of a database, its creation and its upgrade."""

from typing import Final

from sqlalchemy import Connection, inspect, text

from tunefarm_services.store.database.database import Database
from tunefarm_services.store.store_error import DatabaseOutdated, DatabaseTooNew, StoreUnavailable
from tunefarm_services.store.tables import Table

REVISIONS: Final = tuple(f"{number:04}" for number in range(1, 20))
"""Every revision of the schema, oldest first; the migration scripts have the same names."""

NEEDED: Final = REVISIONS[-1]


def require_current(database: Database, *, create: bool, upgrade: bool) -> None:
    """Ensure that the database is at the required revision.

    Creates the tables of an empty database if ``create``, and migrates an older one if ``upgrade``. Raises
    DatabaseOutdated, DatabaseTooNew, StoreUnavailable.
    """
    with database.reading() as connection:
        if _revision_row(connection) == NEEDED:
            return
    with database.writing() as connection:
        database.lock_schema(connection)
        is_current = _create_or_check(connection, create=create)
        revision = None if is_current else _revision_row(connection)
    if is_current:
        return
    if not upgrade:
        raise DatabaseOutdated(revision, NEEDED)
    upgrade_to(database, NEEDED)


def revision_of(connection: Connection) -> str | None:
    """The revision of an existing database, or None without our tables."""
    return _revision_row(connection)


def upgrade_to(database: Database, revision: str) -> None:
    """Migrate up or down to ``revision`` in one transaction; ``base`` drops all tables."""
    # Importing Alembic takes as long as everything else together, and only a migration needs it.
    from tunefarm_services.store.database.migrate import migrate

    with database.writing() as connection:
        database.lift_time_limits(connection)
        database.lock_schema(connection)
        migrate(connection, revision)


def _create_or_check(connection: Connection, *, create: bool) -> bool:
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" not in tables:
        if tables:
            raise StoreUnavailable("The database belongs to another program.", "Choose an empty database.")
        if not create:
            raise StoreUnavailable("The database is empty.", "Run a command that creates it, such as: tunefarm tune")
        _create(connection)
        return True
    revision = _revision_row(connection)
    if revision is not None and revision not in REVISIONS:
        raise DatabaseTooNew(revision, NEEDED)
    return revision == NEEDED


def _create(connection: Connection) -> None:
    """Create the newest tables directly, identical to what all migrations in sequence create."""
    Table.metadata.create_all(connection)
    connection.execute(
        text(
            "CREATE TABLE alembic_version ("
            "version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:revision)"), {"revision": NEEDED})


def _revision_row(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision
