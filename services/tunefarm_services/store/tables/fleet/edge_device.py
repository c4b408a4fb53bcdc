"""Devices in the field, and the codes that enrol them."""

from sqlalchemy import BigInteger, Double, Index, LargeBinary, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class EnrolmentCodeTable(Table):
    """One row for each code, found by its id alone: a device does not know its tenant before it is enrolled."""

    __tablename__ = "enrolment_codes"
    __table_args__ = (Index("ix_enrolment_codes_tenant", "tenant", "code_id"),)

    code_id: Mapped[str] = mapped_column(Text, primary_key=True)
    tenant: Mapped[str] = mapped_column(Text)
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary)
    channel: Mapped[str] = mapped_column(Text)
    labels: Mapped[str] = mapped_column(Text)
    created_by: Mapped[str] = mapped_column(Text)
    """Id of the token that created it."""
    created_s: Mapped[float] = mapped_column(Double)
    """Times of the fleet are seconds since the Unix epoch."""
    expires_s: Mapped[float] = mapped_column(Double)
    used_s: Mapped[float | None] = mapped_column(Double)
    edge_device_id: Mapped[str | None] = mapped_column(Text)
    """The device that used it."""


class EdgeDeviceTable(Table):
    """One row for each enrolled device, with what it said about itself in its last poll."""

    __tablename__ = "edge_devices"
    __table_args__ = (
        Index("ix_edge_devices_channel", "tenant", "channel", "edge_device_id"),
        Index("ix_edge_devices_token", "token_id", unique=True),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    edge_device_id: Mapped[str] = mapped_column(Text, primary_key=True)
    token_id: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    channel: Mapped[str] = mapped_column(Text)
    labels: Mapped[str] = mapped_column(Text)
    enrolled_s: Mapped[float] = mapped_column(Double)
    revoked_s: Mapped[float | None] = mapped_column(Double)
    seen_s: Mapped[float] = mapped_column(Double)
    """Of the last poll, to the minute: storing each would turn every poll into a write."""
    running: Mapped[str | None] = mapped_column(Text)
    sequence: Mapped[int]
    failure: Mapped[str | None] = mapped_column(Text)
    """Of its latest installation."""
    dropped_reports: Mapped[int]
    architecture: Mapped[str] = mapped_column(Text)
    cpu_features: Mapped[str] = mapped_column(Text)
    """Sorted, separated by spaces."""
    device_class_id: Mapped[str | None] = mapped_column(Text)
    runtime_abi: Mapped[int]
    free_bytes: Mapped[int] = mapped_column(BigInteger)
    agent_version: Mapped[str] = mapped_column(Text)
    operating_system: Mapped[str] = mapped_column(Text)
