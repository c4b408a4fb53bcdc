"""Use of the farm, in total and recently."""

from sqlalchemy import Double, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class UsageTable(Table):
    """One row for each job, day and device class. It outlives the job."""

    __tablename__ = "usage"
    __table_args__ = (Index("ix_usage_job", "tenant", "job_id"),)

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    day: Mapped[str] = mapped_column(Text, primary_key=True)
    device_class_id: Mapped[str] = mapped_column(Text, primary_key=True)
    job_id: Mapped[str] = mapped_column(Text, primary_key=True)
    device_seconds: Mapped[float] = mapped_column(Double)
    trials: Mapped[int]


class TenantShareTable(Table):
    """One row for each tenant, with its recent use of the farm."""

    __tablename__ = "tenant_shares"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    level: Mapped[float] = mapped_column(Double)
    """Binary logarithm of the tenant's device-seconds, which halve every hour, plus the hours since the Unix epoch. The
    tenant with less recent use has the lower level at any time, without updates of the row."""
