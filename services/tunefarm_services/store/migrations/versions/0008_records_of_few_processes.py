"""Add to records the number of fresh processes that their interval comes from."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. It is unknown for existing records."""
    # In place: rebuilding the table would delete the rows that reference it.
    op.add_column("tuning_records", sa.Column("processes", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.execute("ALTER TABLE tuning_records DROP COLUMN processes")
