"""Inserting a row that may already be there."""

from functools import cache
from typing import Final

from sqlalchemy import Connection, Insert

from tunefarm_services.store.tables import Table

# For an INSERT the count is forgotten with the cursor unless it is asked for.
_COUNTED: Final = {"preserve_rowcount": True}


def insert_once(connection: Connection, table: type[Table]) -> Insert:
    """An INSERT into ``table`` that passes over rows whose key exists; ``rowcount`` tells how many were new."""
    return _statement(connection.dialect.name, table)


@cache
def _statement(dialect: str, table: type[Table]) -> Insert:
    if dialect == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        return sqlite_insert(table).on_conflict_do_nothing().execution_options(**_COUNTED)
    from sqlalchemy.dialects.postgresql import insert as postgresql_insert

    return postgresql_insert(table).on_conflict_do_nothing().execution_options(**_COUNTED)
