"""Alembic's environment: runs in the connection and transaction that the store passes."""

from alembic import context
from sqlalchemy import Connection

from tunefarm_services.store.tables import Table

_connection = context.config.attributes.get("connection")
if not isinstance(_connection, Connection):
    raise RuntimeError("migrations run through the store: tunefarm db upgrade")

# Batch mode because SQLite cannot alter most of a table in place.
context.configure(connection=_connection, target_metadata=Table.metadata, render_as_batch=True, compare_type=True)
context.run_migrations()
