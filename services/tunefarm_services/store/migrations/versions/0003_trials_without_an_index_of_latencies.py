"""Drop the index of trials by latency: almost no query used it, and each trial updated it twice.

Without statistics of an exploration, PostgreSQL even used it to look up single trials, reading all others.
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the index."""
    op.drop_index("ix_trials_latency", table_name="trials")


def downgrade() -> None:
    """Create the index."""
    op.create_index("ix_trials_latency", "trials", ["tenant", "exploration_id", "latency_s"])
