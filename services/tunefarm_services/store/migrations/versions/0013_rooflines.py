"""Add what workloads move at least, and the peaks of devices, for rooflines."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("workloads", sa.Column("work", sa.Text(), nullable=True))
    op.add_column("devices", sa.Column("peaks", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    op.execute("ALTER TABLE devices DROP COLUMN peaks")
    op.execute("ALTER TABLE workloads DROP COLUMN work")
