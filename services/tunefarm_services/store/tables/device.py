"""Device classes and devices."""

from sqlalchemy import Double, ForeignKeyConstraint, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class DeviceClassTable(Table):
    """One row for each kind of hardware a tenant has seen."""

    __tablename__ = "device_classes"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    device_class_id: Mapped[str] = mapped_column(Text, primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    document: Mapped[str] = mapped_column(Text)
    created_at: Mapped[str] = mapped_column(Text)


class DeviceTable(Table):
    """One row for each device; its class is the one it had when it was first seen."""

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
    seen_at: Mapped[str] = mapped_column(Text)
