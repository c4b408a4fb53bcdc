"""Tuning records, and the fastest verified one of every key."""

from sqlalchemy import Boolean, Double, ForeignKeyConstraint, Index, Text, false, text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class RecordTable(Table):
    """One row for each tuning record. Records are never deleted: a wrong one is retracted."""

    __tablename__ = "tuning_records"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "workload_id"], ["workloads.tenant", "workloads.workload_id"]),
        # Pages through the records of a workload by latency, and finds the next best after a retraction.
        Index("ix_tuning_records_workload", "tenant", "workload_id", "status", "latency_s", "record_id"),
        # Few records are claimed or retracted.
        Index(
            "ix_tuning_records_unverified",
            "tenant",
            "status",
            "record_id",
            sqlite_where=text("status <> 'verified'"),
            postgresql_where=text("status <> 'verified'"),
        ),
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
    foreign_load: Mapped[float | None] = mapped_column(Double)
    untuned_is_estimate: Mapped[bool] = mapped_column(Boolean, server_default=false())
    processes: Mapped[int | None]


class BestRecordTable(Table):
    """One row for each key that has a verified record, updated with every write to ``tuning_records``.

    There are far fewer keys than records, so this table stays in memory when ``tuning_records`` no longer does, and no
    query has to skip the many records of a popular key.
    """

    __tablename__ = "best_records"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "record_id"], ["tuning_records.tenant", "tuning_records.record_id"]),
        # The fastest record of a workload under any key.
        Index("ix_best_records_workload", "tenant", "workload_id", "latency_s"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    workload_id: Mapped[str] = mapped_column(Text, primary_key=True)
    target_id: Mapped[str] = mapped_column(Text, primary_key=True)
    device_class_id: Mapped[str] = mapped_column(Text, primary_key=True)
    code_generator: Mapped[str] = mapped_column(Text, primary_key=True)
    protocol_id: Mapped[str] = mapped_column(Text, primary_key=True)
    abi: Mapped[str] = mapped_column(Text, primary_key=True)
    record_id: Mapped[str] = mapped_column(Text)
    latency_s: Mapped[float] = mapped_column(Double)
