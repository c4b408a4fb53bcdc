"""Inserting a row that may already be there."""

from functools import cache
from typing import Final, TypeAlias

from sqlalchemy import Connection, Insert
from sqlalchemy.dialects import postgresql, sqlite

from tunefarm_services.store.tables import Table

EitherInsert: TypeAlias = "sqlite.Insert | postgresql.Insert"

# For an INSERT the count is forgotten with the cursor unless it is asked for.
_COUNTED: Final = {"preserve_rowcount": True}


def insert_into(connection: Connection, table: type[Table]) -> EitherInsert:
    """An INSERT into ``table`` in the words of the database, to be told what to do about a row that is there."""
    return _plain(connection.dialect.name, table)


def insert_once(connection: Connection, table: type[Table]) -> Insert:
    """An INSERT into ``table`` that passes over rows whose key exists; ``rowcount`` tells how many were new."""
    return _passing_over(connection.dialect.name, table)


# A statement that was made once is looked up in SQLAlchemy's cache without being taken apart again.
@cache
def _plain(dialect: str, table: type[Table]) -> EitherInsert:
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


@cache
def _passing_over(dialect: str, table: type[Table]) -> Insert:
    return _plain(dialect, table).on_conflict_do_nothing().execution_options(**_COUNTED)
