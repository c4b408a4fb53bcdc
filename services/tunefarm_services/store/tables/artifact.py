"""Artifacts and bundles. Libraries and archives are blobs."""

from sqlalchemy import BigInteger, Double, ForeignKeyConstraint, Index, Text, text
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


class BundleTable(Table):
    """One row for each bundle that was asked for. The lease of its builder is part of it."""

    __tablename__ = "bundles"
    __table_args__ = (
        Index("ix_bundles_blob", "content_digest"),
        Index(
            "ix_bundles_open",
            "created_at",
            sqlite_where=text("state <> 'finished'"),
            postgresql_where=text("state <> 'finished'"),
        ),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    bundle_id: Mapped[str] = mapped_column(Text, primary_key=True)
    request: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    outcome: Mapped[str | None] = mapped_column(Text)
    message: Mapped[str] = mapped_column(Text)
    manifest: Mapped[str | None] = mapped_column(Text)
    content_digest: Mapped[str | None] = mapped_column(Text)
    content_bytes: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[str] = mapped_column(Text)
    finished_at: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int]
    owner: Mapped[str | None] = mapped_column(Text)
    lease_expires_at: Mapped[float | None] = mapped_column(Double)
    """Seconds since the Unix epoch."""
