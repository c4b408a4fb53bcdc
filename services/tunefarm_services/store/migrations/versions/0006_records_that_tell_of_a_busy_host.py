"""Add to records the share of CPU time that other processes used during their measurement."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. It is unknown for existing records."""
    # In place: rebuilding the table would delete the rows that reference it.
    op.add_column("tuning_records", sa.Column("foreign_load", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.execute("ALTER TABLE tuning_records DROP COLUMN foreign_load")
