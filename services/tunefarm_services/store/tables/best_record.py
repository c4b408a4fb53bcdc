"""The fastest verified record of every key."""

from sqlalchemy import Double, ForeignKeyConstraint, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class BestRecordTable(Table):
    """One row for each key that has a verified record, kept in step with ``tuning_records`` by every write to it.

    There are far fewer keys than records, so this stays in memory when the records no longer do, and no answer has to
    pass over the many records of a popular key to find those of another.
    """

    __tablename__ = "best_records"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "record_id"], ["tuning_records.tenant", "tuning_records.record_id"]),
        # The fastest of a workload under any key.
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
