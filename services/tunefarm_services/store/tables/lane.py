"""Lanes as they were last heard of."""

from sqlalchemy import Double, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class LaneTable(Table):
    """One row for each lane. ``document`` is the lane as JSON; what is asked of it outlives its heartbeats."""

    __tablename__ = "lanes"
    __table_args__ = (Index("ix_lanes_class", "tenant", "device_class_id"),)

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    lane_id: Mapped[str] = mapped_column(Text, primary_key=True)
    device_class_id: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    request: Mapped[str] = mapped_column(Text)
    heard_s: Mapped[float] = mapped_column(Double)
    """When it was last heard of, in seconds since the Unix epoch by the database's clock."""
    document: Mapped[str] = mapped_column(Text)
