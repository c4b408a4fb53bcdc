"""Add the release repositories of tenants."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_TABLES = (
    "release_file_pieces", "release_files", "release_metadata", "release_publications", "release_targets",
)  # fmt: skip


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "release_metadata",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "role", "version", name="pk_release_metadata"),
    )
    op.create_table(
        "release_targets",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "path", name="pk_release_targets"),
    )
    op.create_table(
        "release_files",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("received_bytes", sa.BigInteger(), nullable=False),
        sa.Column("completed_at", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "digest", name="pk_release_files"),
    )
    op.create_table(
        "release_file_pieces",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("offset_bytes", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("blob_digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "digest", "offset_bytes", name="pk_release_file_pieces"),
        sa.ForeignKeyConstraint(
            ["tenant", "digest"],
            ["release_files.tenant", "release_files.digest"],
            name="fk_release_file_pieces_tenant_digest",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_release_file_pieces_blob", "release_file_pieces", ["blob_digest"])
    op.create_table(
        "release_publications",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("timestamp_version", sa.Integer(), nullable=False),
        sa.Column("root_version", sa.Integer(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("changes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "timestamp_version", "root_version", name="pk_release_publications"),
    )


def downgrade() -> None:
    """Drop the tables."""
    for name in _TABLES:
        op.drop_table(name)
