"""Tuning records."""

from sqlalchemy import Double, ForeignKeyConstraint, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class RecordTable(Table):
    """One row for each tuning record. Rows are never deleted: a wrong record is retracted."""

    __tablename__ = "tuning_records"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "workload_id"], ["workloads.tenant", "workloads.workload_id"]),
        # The question of every compilation: the fastest verified record of a key.
        Index(
            "ix_tuning_records_best",
            "tenant",
            "workload_id",
            "target_id",
            "device_class_id",
            "code_generator",
            "protocol_id",
            "abi",
            "status",
            "latency_s",
        ),
        # The fastest of a workload on any device.
        Index("ix_tuning_records_workload", "tenant", "workload_id", "status", "latency_s"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    record_id: Mapped[str] = mapped_column(Text, primary_key=True)
    workload_id: Mapped[str] = mapped_column(Text)
    target_id: Mapped[str] = mapped_column(Text)
    device_class_id: Mapped[str] = mapped_column(Text)
    code_generator: Mapped[str] = mapped_column(Text)
    protocol_id: Mapped[str] = mapped_column(Text)
    abi: Mapped[str] = mapped_column(Text)
    trace: Mapped[str] = mapped_column(Text)
    latency_s: Mapped[float] = mapped_column(Double)
    interval_low_s: Mapped[float | None] = mapped_column(Double)
    interval_high_s: Mapped[float | None] = mapped_column(Double)
    untuned_latency_s: Mapped[float | None] = mapped_column(Double)
    status: Mapped[str] = mapped_column(Text)
    status_reason: Mapped[str] = mapped_column(Text)
    source: Mapped[str] = mapped_column(Text)
    exploration_id: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[str] = mapped_column(Text)
