"""Tokens, the key of their hashes, and requests that may be repeated."""

from sqlalchemy import Double, Index, LargeBinary, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class TokenTable(Table):
    """One row for each token, found by its id alone: a request does not name the tenant."""

    __tablename__ = "tokens"
    __table_args__ = (Index("ix_tokens_tenant", "tenant", "token_id"), Index("ix_tokens_session_of", "session_of"))

    token_id: Mapped[str] = mapped_column(Text, primary_key=True)
    tenant: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    scopes: Mapped[str] = mapped_column(Text)
    """Separated by spaces."""
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[str] = mapped_column(Text)
    expires_at: Mapped[str | None] = mapped_column(Text)
    revoked_at: Mapped[str | None] = mapped_column(Text)
    last_used_at: Mapped[str | None] = mapped_column(Text)
    session_of: Mapped[str | None] = mapped_column(Text)
    """The token that a browser session, or a link that begins one, was made of; it ends with that token."""


class ServerSecretTable(Table):
    """One row for each secret that all servers of this database share. It belongs to no tenant."""

    __tablename__ = "server_secrets"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    secret: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[str] = mapped_column(Text)


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
