"""What devices report: each report for a while, and what follows from them about each release."""

from sqlalchemy import BigInteger, Boolean, Double, ForeignKeyConstraint, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class EdgeReportTable(Table):
    """One row for each report, which is a claim of a device and never a measurement."""

    __tablename__ = "edge_reports"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "edge_device_id"], ["edge_devices.tenant", "edge_devices.edge_device_id"], ondelete="CASCADE"
        ),
        Index("ix_edge_reports_received", "received_s"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    edge_device_id: Mapped[str] = mapped_column(Text, primary_key=True)
    report_id: Mapped[str] = mapped_column(Text, primary_key=True)
    received_s: Mapped[float] = mapped_column(Double)
    at: Mapped[str] = mapped_column(Text)
    """By the device's clock."""
    release: Mapped[str] = mapped_column(Text)
    body: Mapped[str] = mapped_column(Text)


class EdgeEvidenceTable(Table):
    """One row for each device and release: the sum of the device's reports, which outlives them."""

    __tablename__ = "edge_evidence"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "edge_device_id"], ["edge_devices.tenant", "edge_devices.edge_device_id"], ondelete="CASCADE"
        ),
        Index("ix_edge_evidence_release", "tenant", "release"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    edge_device_id: Mapped[str] = mapped_column(Text, primary_key=True)
    release: Mapped[str] = mapped_column(Text, primary_key=True)
    heard_s: Mapped[float] = mapped_column(Double)
    """When the last report arrived."""
    failure: Mapped[str | None] = mapped_column(Text)
    """Of the latest installation, or of the latest self-test."""
    runs: Mapped[int] = mapped_column(BigInteger)
    p50_s: Mapped[float | None] = mapped_column(Double)
    """Mean of the reported quantiles, weighted by runs."""
    p95_s: Mapped[float | None] = mapped_column(Double)
    is_drifting: Mapped[bool] = mapped_column(Boolean)
