"""Device classes, devices, and the current lanes."""

from sqlalchemy import Double, ForeignKeyConstraint, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class DeviceClassTable(Table):
    """One row for each kind of hardware that a tenant has used."""

    __tablename__ = "device_classes"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    device_class_id: Mapped[str] = mapped_column(Text, primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    document: Mapped[str] = mapped_column(Text)
    created_at: Mapped[str] = mapped_column(Text)


class DeviceTable(Table):
    """One row for each device, with the class that it had when first stored."""

    __tablename__ = "devices"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "device_class_id"], ["device_classes.tenant", "device_classes.device_class_id"]
        ),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    fingerprint: Mapped[str] = mapped_column(Text, primary_key=True)
    host_name: Mapped[str] = mapped_column(Text)
    device_class_id: Mapped[str] = mapped_column(Text)
    compute_s: Mapped[float] = mapped_column(Double)
    bandwidth_s: Mapped[float] = mapped_column(Double)
    launch_s: Mapped[float] = mapped_column(Double)
    peaks: Mapped[str | None] = mapped_column(Text)
    """``DevicePeaks`` as JSON; null if they are unknown."""
    seen_at: Mapped[str] = mapped_column(Text)


class LaneTable(Table):
    """One row for each lane. ``document`` is the lane as JSON; a pending request outlives its heartbeats."""

    __tablename__ = "lanes"
    __table_args__ = (Index("ix_lanes_class", "tenant", "device_class_id"),)

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    lane_id: Mapped[str] = mapped_column(Text, primary_key=True)
    device_class_id: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    request: Mapped[str] = mapped_column(Text)
    heard_s: Mapped[float] = mapped_column(Double)
    """Time of the last heartbeat, in seconds since the Unix epoch by the database's clock."""
    document: Mapped[str] = mapped_column(Text)


class LaneChangeTable(Table):
    """One row for each change of a lane's state, except between ready and busy, and for each request to it."""

    __tablename__ = "lane_changes"
    __table_args__ = (Index("ix_lane_changes_device", "tenant", "device_id", "change_id"),)

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    lane_id: Mapped[str] = mapped_column(Text, primary_key=True)
    change_id: Mapped[str] = mapped_column(Text, primary_key=True)
    """Begins with the time, so that ids are in order of time."""
    device_id: Mapped[str] = mapped_column(Text)
    at_s: Mapped[float] = mapped_column(Double)
    kind: Mapped[str] = mapped_column(Text)
    value: Mapped[str] = mapped_column(Text)
    """The state, or the request."""
    reason: Mapped[str] = mapped_column(Text)
    token_id: Mapped[str | None] = mapped_column(Text)
    """Of who made the request."""


class ReferenceSampleTable(Table):
    """One row for each device and interval, with the first times of its reference kernels in it."""

    __tablename__ = "reference_samples"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    device_id: Mapped[str] = mapped_column(Text, primary_key=True)
    interval_number: Mapped[int] = mapped_column(primary_key=True)
    """Intervals since the Unix epoch."""
    compute_s: Mapped[float] = mapped_column(Double)
    bandwidth_s: Mapped[float] = mapped_column(Double)
    launch_s: Mapped[float] = mapped_column(Double)
