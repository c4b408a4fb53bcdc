"""Explorations: their effort, the jobs that opened them, and the saved cost models."""

from sqlalchemy import BigInteger, Double, ForeignKeyConstraint, Index, Integer, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class ExplorationTable(Table):
    """One row for each exploration, with the job that holds it."""

    __tablename__ = "explorations"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "workload_id"], ["workloads.tenant", "workloads.workload_id"]),
        Index("ix_explorations_workload", "tenant", "workload_id"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    exploration_id: Mapped[str] = mapped_column(Text, primary_key=True)
    workload_id: Mapped[str] = mapped_column(Text)
    target_id: Mapped[str] = mapped_column(Text)
    device_class_id: Mapped[str] = mapped_column(Text)
    code_generator: Mapped[str] = mapped_column(Text)
    protocol_id: Mapped[str] = mapped_column(Text)
    space_id: Mapped[str] = mapped_column(Text)
    abi: Mapped[str] = mapped_column(Text)
    fresh_for: Mapped[str] = mapped_column(Text)
    spent_trials: Mapped[int]
    spent_seconds: Mapped[float] = mapped_column(Double)
    verified_trials: Mapped[int] = mapped_column(server_default="0")
    stop_reason: Mapped[str | None] = mapped_column(Text)
    best_latency_s: Mapped[float | None] = mapped_column(Double)
    holder_job_id: Mapped[str | None] = mapped_column(Text)
    holder_fence: Mapped[int | None]
    created_at: Mapped[str] = mapped_column(Text)


class JobExplorationTable(Table):
    """One row for each exploration that a job has opened."""

    __tablename__ = "job_explorations"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "job_id"], ["jobs.tenant", "jobs.job_id"], ondelete="CASCADE"),
        ForeignKeyConstraint(
            ["tenant", "exploration_id"],
            ["explorations.tenant", "explorations.exploration_id"],
            ondelete="CASCADE",
        ),
        Index("ix_job_explorations_exploration", "tenant", "exploration_id"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    job_id: Mapped[str] = mapped_column(Text, primary_key=True)
    exploration_id: Mapped[str] = mapped_column(Text, primary_key=True)


# SQLite assigns numbers only in a column declared exactly INTEGER.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")


class ModelSnapshotTable(Table):
    """One row for each saved model of a target on a device class."""

    __tablename__ = "cost_model_snapshots"
    __table_args__ = (
        Index("ix_cost_model_snapshots_latest", "tenant", "target_id", "device_class_id", "snapshot_number"),
        Index("ix_cost_model_snapshots_blob", "model_digest"),
    )

    snapshot_number: Mapped[int] = mapped_column(_NUMBER, primary_key=True)
    tenant: Mapped[str] = mapped_column(Text)
    target_id: Mapped[str] = mapped_column(Text)
    device_class_id: Mapped[str] = mapped_column(Text)
    model_digest: Mapped[str] = mapped_column(Text)
    trials: Mapped[int]
    created_at: Mapped[str] = mapped_column(Text)
