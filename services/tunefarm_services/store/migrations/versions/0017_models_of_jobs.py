"""Jobs keep the model whose functions they tune."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("jobs", sa.Column("model_digest", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("model_bytes", sa.BigInteger(), nullable=True))
    op.create_index("ix_jobs_blob", "jobs", ["model_digest"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_jobs_blob", "jobs")
    op.execute("ALTER TABLE jobs DROP COLUMN model_bytes")
    op.execute("ALTER TABLE jobs DROP COLUMN model_digest")
