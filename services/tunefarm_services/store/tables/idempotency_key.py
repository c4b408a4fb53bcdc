"""Repeatable requests and their responses."""

from sqlalchemy import Double, Index, LargeBinary, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class IdempotencyKeyTable(Table):
    """One row for each key that a client chose for a request."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (Index("ix_idempotency_keys_age", "created_s"),)

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    key: Mapped[str] = mapped_column(Text, primary_key=True)
    request_digest: Mapped[str] = mapped_column(Text)
    created_s: Mapped[float] = mapped_column(Double)
    """Seconds since the Unix epoch."""
    claimed_s: Mapped[float] = mapped_column(Double)
    """When the current claim was made or renewed, in seconds since the Unix epoch."""
    job_id: Mapped[str | None] = mapped_column(Text)
    """The job that the request created, written in the same transaction."""
    status: Mapped[int | None]
    headers: Mapped[str | None] = mapped_column(Text)
    body: Mapped[bytes | None] = mapped_column(LargeBinary)
