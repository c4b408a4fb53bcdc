"""Add the history of lanes and of their reference kernels, and an index of recent measurements."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables and the index."""
    op.create_table(
        "lane_changes",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("lane_id", sa.Text(), nullable=False),
        sa.Column("change_id", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "lane_id", "change_id", name=op.f("pk_lane_changes")),
    )
    op.create_index("ix_lane_changes_device", "lane_changes", ["tenant", "device_id", "change_id"])
    op.create_table(
        "reference_samples",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("interval_number", sa.Integer(), nullable=False),
        sa.Column("compute_s", sa.Double(), nullable=False),
        sa.Column("bandwidth_s", sa.Double(), nullable=False),
        sa.Column("launch_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "device_id", "interval_number", name=op.f("pk_reference_samples")),
    )
    op.create_index("ix_measurements_recent", "measurements", ["measured_at", "tenant", "failure_reason"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_measurements_recent", "measurements")
    op.drop_table("reference_samples")
    op.drop_index("ix_lane_changes_device", "lane_changes")
    op.drop_table("lane_changes")
