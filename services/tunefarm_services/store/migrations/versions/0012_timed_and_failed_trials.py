"""Partial indexes of timed and of failed trials, instead of one with all columns of charts of all trials."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_POINTS = ["tenant", "exploration_id", "candidate_number", "latency_s", "predicted_score", "failure_reason"]
_TIMED = ["tenant", "exploration_id", "latency_s", "candidate_number"]
_FAILED = ["tenant", "exploration_id", "candidate_number", "failure_reason"]


def upgrade() -> None:
    """Replace the index."""
    op.drop_index("ix_trials_points", "trials")
    for name, columns in (("timed", _TIMED), ("failed", _FAILED)):
        condition = sa.text(f"{'latency_s' if name == 'timed' else 'failure_reason'} IS NOT NULL")
        op.create_index(f"ix_trials_{name}", "trials", columns, sqlite_where=condition, postgresql_where=condition)


def downgrade() -> None:
    """Bring the former index back."""
    op.drop_index("ix_trials_failed", "trials")
    op.drop_index("ix_trials_timed", "trials")
    op.create_index("ix_trials_points", "trials", _POINTS)
