"""Inserting a row that may already be there."""

from functools import cache
from typing import Final, TypeAlias

from sqlalchemy import Connection, Insert
from sqlalchemy.dialects import postgresql, sqlite

from tunefarm_services.store.tables import Table

EitherInsert: TypeAlias = "sqlite.Insert | postgresql.Insert"

# Without this option SQLAlchemy drops the row count of an INSERT with its cursor.
_COUNTED: Final = {"preserve_rowcount": True}


def insert_into(connection: Connection, table: type[Table]) -> EitherInsert:
    """An INSERT into ``table`` of the connection's dialect, to be completed with ON CONFLICT."""
    return _insert_into(connection.dialect.name, table)


def insert_once(connection: Connection, table: type[Table]) -> Insert:
    """An INSERT into ``table`` that skips existing keys; ``rowcount`` is the number of new rows."""
    return _insert_once(connection.dialect.name, table)


# Reused statements are found in SQLAlchemy's cache without being traversed again.
@cache
def _insert_into(dialect: str, table: type[Table]) -> EitherInsert:
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


@cache
def _insert_once(dialect: str, table: type[Table]) -> Insert:
    return _insert_into(dialect, table).on_conflict_do_nothing().execution_options(**_COUNTED)
