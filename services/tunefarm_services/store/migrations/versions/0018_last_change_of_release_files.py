"""Add to files of releases when they were declared or a piece of them came last, so that unfinished ones expire."""

import sqlalchemy as sa
from alembic import op

from tunefarm_schemas.clock import utc_now

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Unfinished files count as changed now."""
    op.add_column("release_files", sa.Column("changed_at", sa.Text(), nullable=True))
    files = sa.table("release_files", sa.column("changed_at"), sa.column("completed_at"))
    op.execute(files.update().values(changed_at=sa.func.coalesce(files.c.completed_at, utc_now())))


def downgrade() -> None:
    """Drop the column."""
    op.execute("ALTER TABLE release_files DROP COLUMN changed_at")
