"""Explorations with the number of trials that had been spent when their fastest were last verified."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. What was searched until now counts as verified, which is how it was taken."""
    # Added and dropped in place: to make the table anew would take with it whatever refers to it.
    op.add_column("explorations", sa.Column("verified_trials", sa.Integer(), nullable=False, server_default="0"))
    op.execute("UPDATE explorations SET verified_trials = spent_trials")


def downgrade() -> None:
    """Drop it."""
    op.execute("ALTER TABLE explorations DROP COLUMN verified_trials")
