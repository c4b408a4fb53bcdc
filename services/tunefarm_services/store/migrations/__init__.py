"""The schema's history: one script for each revision, run by Alembic."""
