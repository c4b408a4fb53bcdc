"""Sharing groups of tenants, and which measurements another tenant of the group paid for."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_RECENT = "ix_measurements_recent"


def upgrade() -> None:
    """Create the table, and add the column to the measurements and to the index that the overview reads."""
    op.create_table(
        "sharing_tenants",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("sharing_group", sa.Text(), nullable=False),
        sa.Column("joined_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_sharing_tenants")),
    )
    op.create_index("ix_sharing_tenants_group", "sharing_tenants", ["sharing_group", "tenant"])
    op.add_column("measurements", sa.Column("is_shared", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.drop_index(_RECENT, "measurements")
    op.create_index(_RECENT, "measurements", ["measured_at", "tenant", "is_shared", "failure_reason"])


def downgrade() -> None:
    """Drop them. Shared trials remain as trials of their tenants."""
    op.drop_index(_RECENT, "measurements")
    op.create_index(_RECENT, "measurements", ["measured_at", "tenant", "failure_reason"])
    op.execute("ALTER TABLE measurements DROP COLUMN is_shared")
    op.drop_table("sharing_tenants")
