"""Add to records whether the untuned function's latency is an estimate."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Existing records were all measured."""
    # In place: rebuilding the table would delete the rows that reference it.
    op.add_column(
        "tuning_records", sa.Column("untuned_is_estimate", sa.Boolean(), nullable=False, server_default=sa.false())
    )


def downgrade() -> None:
    """Drop the column."""
    op.execute("ALTER TABLE tuning_records DROP COLUMN untuned_is_estimate")
