"""Records that say whether the untuned function's latency is an estimate."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. All until now were measured."""
    # Added and dropped in place: to make the table anew would take with it whatever refers to it.
    op.add_column(
        "tuning_records", sa.Column("untuned_is_estimate", sa.Boolean(), nullable=False, server_default=sa.false())
    )


def downgrade() -> None:
    """Drop it."""
    op.execute("ALTER TABLE tuning_records DROP COLUMN untuned_is_estimate")
