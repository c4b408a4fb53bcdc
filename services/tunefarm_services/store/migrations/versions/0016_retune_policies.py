"""Retune policies of channels, and the jobs that they opened."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "retune_policies",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "channel", name=op.f("pk_retune_policies")),
    )
    op.create_table(
        "retunes",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("record_id", sa.Text(), nullable=False),
        sa.Column("opened_s", sa.Double(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "record_id", name=op.f("pk_retunes")),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("retunes")
    op.drop_table("retune_policies")
