"""Trials without an index of their latencies: nearly nobody asked it, and each trial paid for it twice.

PostgreSQL, before it knew how many trials an exploration has, even looked up single trials by it, through all others.
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
    """Make it again."""
    op.create_index("ix_trials_latency", "trials", ["tenant", "exploration_id", "latency_s"])
