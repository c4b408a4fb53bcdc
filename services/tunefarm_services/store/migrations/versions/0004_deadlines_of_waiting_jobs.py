"""Add the deadline of jobs, with an index that finds the overdue ones."""

import json
from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_OVERDUE = sa.text("state <> 'finished' AND deadline_at IS NOT NULL")
_JOBS = sa.table(
    "jobs",
    sa.column("tenant", sa.Text()),
    sa.column("job_id", sa.Text()),
    sa.column("spec", sa.Text()),
    sa.column("state", sa.Text()),
    sa.column("created_at", sa.Text()),
    sa.column("deadline_at", sa.Double()),
)


def upgrade() -> None:
    """Add the column, fill it for unfinished jobs, and index it."""
    # In place: rebuilding the table would delete the rows that reference it.
    op.add_column("jobs", sa.Column("deadline_at", sa.Double(), nullable=True))
    connection = op.get_bind()
    open_jobs = connection.execute(sa.select(_JOBS).where(_JOBS.c.state != "finished")).all()
    for job in open_jobs:
        deadline_s = json.loads(job.spec).get("deadline_s")
        if deadline_s is not None:
            deadline_at = datetime.fromisoformat(job.created_at).timestamp() + deadline_s
            of_job = sa.and_(_JOBS.c.tenant == job.tenant, _JOBS.c.job_id == job.job_id)
            connection.execute(sa.update(_JOBS).where(of_job).values(deadline_at=deadline_at))
    op.create_index("ix_jobs_deadline", "jobs", ["deadline_at"], sqlite_where=_OVERDUE, postgresql_where=_OVERDUE)


def downgrade() -> None:
    """Drop both; the deadlines stay in the jobs' specs."""
    op.drop_index("ix_jobs_deadline", "jobs")
    op.execute("ALTER TABLE jobs DROP COLUMN deadline_at")
