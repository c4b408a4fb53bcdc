"""Add the bundles that tenants ask for."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_OPEN = sa.text("state <> 'finished'")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "bundles",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("bundle_id", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=True),
        sa.Column("content_digest", sa.Text(), nullable=True),
        sa.Column("content_bytes", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_expires_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "bundle_id", name="pk_bundles"),
    )
    op.create_index("ix_bundles_blob", "bundles", ["content_digest"])
    op.create_index("ix_bundles_open", "bundles", ["created_at"], sqlite_where=_OPEN, postgresql_where=_OPEN)


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("bundles")
