"""Retune policies of channels, and the jobs that they opened."""

from sqlalchemy import Double, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class RetunePolicyTable(Table):
    """One row for each channel whose policy was set."""

    __tablename__ = "retune_policies"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    channel: Mapped[str] = mapped_column(Text, primary_key=True)
    policy: Mapped[str] = mapped_column(Text)


class RetuneTable(Table):
    """One row for each record for which a policy opened a job: the latest one."""

    __tablename__ = "retunes"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    record_id: Mapped[str] = mapped_column(Text, primary_key=True)
    opened_s: Mapped[float] = mapped_column(Double)
    job_id: Mapped[str] = mapped_column(Text)
    channel: Mapped[str] = mapped_column(Text)
    release: Mapped[str] = mapped_column(Text)
