"""Events, numbered in their stream."""

from sqlalchemy import Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class EventTable(Table):
    """One row for each event of a job, or of the tenant where ``job_id`` is empty."""

    __tablename__ = "events"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    job_id: Mapped[str] = mapped_column(Text, primary_key=True)
    sequence: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    at: Mapped[str] = mapped_column(Text)
    data: Mapped[str] = mapped_column(Text)
