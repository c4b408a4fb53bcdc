"""Cost models as they were saved. The model itself is a blob."""

from sqlalchemy import BigInteger, Index, Integer, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table

# SQLite numbers rows by itself only in a column declared exactly INTEGER.
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
