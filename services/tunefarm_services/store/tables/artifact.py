"""Artifacts. The library itself is a blob."""

from sqlalchemy import ForeignKeyConstraint, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class ArtifactTable(Table):
    """One row for each compiled library."""

    __tablename__ = "artifacts"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "record_id"], ["tuning_records.tenant", "tuning_records.record_id"]),
        Index("ix_artifacts_record", "tenant", "record_id"),
        Index("ix_artifacts_workload", "tenant", "workload_id"),
        Index("ix_artifacts_blob", "library_digest"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    artifact_id: Mapped[str] = mapped_column(Text, primary_key=True)
    record_id: Mapped[str] = mapped_column(Text)
    workload_id: Mapped[str] = mapped_column(Text)
    library_digest: Mapped[str] = mapped_column(Text)
    manifest: Mapped[str] = mapped_column(Text)
    created_at: Mapped[str] = mapped_column(Text)
