"""Workloads and targets. The module of a workload is a blob named by ``workload_id``."""

from sqlalchemy import Double, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class WorkloadTable(Table):
    """One row for each workload of a tenant."""

    __tablename__ = "workloads"
    __table_args__ = (
        Index("ix_workloads_hash", "tenant", "structural_hash", "tvm_version"),
        # The nearest workloads of a family by floating point operations.
        Index("ix_workloads_family", "tenant", "family", "floating_point_operations", "workload_id"),
        Index("ix_workloads_blob", "workload_id"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    workload_id: Mapped[str] = mapped_column(Text, primary_key=True)
    structural_hash: Mapped[str] = mapped_column(Text)
    tvm_version: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    family: Mapped[str] = mapped_column(Text)
    """Digest of the properties that do not depend on the shape; finds similar workloads."""
    arguments: Mapped[str] = mapped_column(Text)
    floating_point_operations: Mapped[float] = mapped_column(Double)
    work: Mapped[str | None] = mapped_column(Text)
    """``Work`` as JSON; null if it is unknown."""
    created_at: Mapped[str] = mapped_column(Text)


class TargetTable(Table):
    """One row for each target of a tenant."""

    __tablename__ = "targets"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    target_id: Mapped[str] = mapped_column(Text, primary_key=True)
    canonical: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)
    num_cores: Mapped[int]
    created_at: Mapped[str] = mapped_column(Text)
