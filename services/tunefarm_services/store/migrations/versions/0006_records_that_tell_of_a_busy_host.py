"""Records with the share of the time for which other processes had the device while they were taken."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Nothing is known of records until now."""
    # Added and dropped in place: to make the table anew would take with it whatever refers to it.
    op.add_column("tuning_records", sa.Column("foreign_load", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.execute("ALTER TABLE tuning_records DROP COLUMN foreign_load")
