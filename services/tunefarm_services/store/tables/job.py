"""Jobs with their leases, labels, tasks and events."""

from sqlalchemy import BigInteger, Double, ForeignKeyConstraint, Index, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class JobTable(Table):
    """One row for each job. The lease is part of it, so that one lock protects both."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_blob", "model_digest"),
        Index("ix_jobs_queue", "tenant", "state", "priority", "job_id"),
        # The queue over all tenants, without the finished jobs, which are the large majority.
        Index(
            "ix_jobs_open",
            "tenant",
            "priority",
            "job_id",
            sqlite_where=text("state <> 'finished'"),
            postgresql_where=text("state <> 'finished'"),
        ),
        Index(
            "ix_jobs_deadline",
            "deadline_at",
            sqlite_where=text("state <> 'finished' AND deadline_at IS NOT NULL"),
            postgresql_where=text("state <> 'finished' AND deadline_at IS NOT NULL"),
        ),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    job_id: Mapped[str] = mapped_column(Text, primary_key=True)
    spec: Mapped[str] = mapped_column(Text)
    priority: Mapped[int]
    state: Mapped[str] = mapped_column(Text)
    outcome: Mapped[str | None] = mapped_column(Text)
    message: Mapped[str] = mapped_column(Text)
    created_at: Mapped[str] = mapped_column(Text)
    finished_at: Mapped[str | None] = mapped_column(Text)
    request: Mapped[str | None] = mapped_column(Text)
    search_deaths: Mapped[int]
    last_sequence: Mapped[int]
    fence: Mapped[int]
    owner: Mapped[str | None] = mapped_column(Text)
    lease_expires_at: Mapped[float | None] = mapped_column(Double)
    """Seconds since the Unix epoch."""
    kind: Mapped[str] = mapped_column(Text, server_default="tune")
    device_class_id: Mapped[str | None] = mapped_column(Text)
    deadline_at: Mapped[float | None] = mapped_column(Double)
    """The deadline in seconds since the Unix epoch."""
    model_digest: Mapped[str | None] = mapped_column(Text)
    """The model whose functions are its tasks, as TVM's JSON with all of its weights; null if it was not sent."""
    model_bytes: Mapped[int | None] = mapped_column(BigInteger)


class JobLabelTable(Table):
    """One row for each label of a job."""

    __tablename__ = "job_labels"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "job_id"], ["jobs.tenant", "jobs.job_id"], ondelete="CASCADE"),
        Index("ix_job_labels_value", "tenant", "name", "value"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    job_id: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class TaskTable(Table):
    """One row for each task of a job, in the order of its spec."""

    __tablename__ = "tasks"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "job_id"], ["jobs.tenant", "jobs.job_id"], ondelete="CASCADE"),
        ForeignKeyConstraint(["tenant", "workload_id"], ["workloads.tenant", "workloads.workload_id"]),
        ForeignKeyConstraint(["tenant", "target_id"], ["targets.tenant", "targets.target_id"]),
        Index("ix_tasks_workload", "tenant", "workload_id"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    job_id: Mapped[str] = mapped_column(Text, primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    workload_id: Mapped[str] = mapped_column(Text)
    target_id: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    weight: Mapped[float] = mapped_column(Double)


class EventTable(Table):
    """One row for each event of a job, or of the tenant where ``job_id`` is empty."""

    __tablename__ = "events"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    job_id: Mapped[str] = mapped_column(Text, primary_key=True)
    sequence: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    at: Mapped[str] = mapped_column(Text)
    data: Mapped[str] = mapped_column(Text)
