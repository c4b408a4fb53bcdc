"""Add browser sessions, which are tokens made of another one, and an index with the columns of charts of trials."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_POINTS = ["tenant", "exploration_id", "candidate_number", "latency_s", "predicted_score", "failure_reason"]


def upgrade() -> None:
    """Add the column and the indexes."""
    op.add_column("tokens", sa.Column("session_of", sa.Text(), nullable=True))
    op.create_index("ix_tokens_session_of", "tokens", ["session_of"])
    op.create_index("ix_trials_points", "trials", _POINTS)


def downgrade() -> None:
    """Drop them, and the sessions: without the column they would outlive their tokens."""
    op.execute("DELETE FROM tokens WHERE session_of IS NOT NULL")
    op.drop_index("ix_trials_points", "trials")
    op.drop_index("ix_tokens_session_of", "tokens")
    op.execute("ALTER TABLE tokens DROP COLUMN session_of")
