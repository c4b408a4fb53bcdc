"""Schema migrations: one Alembic script for each revision."""
