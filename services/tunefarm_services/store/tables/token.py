"""Tokens, and the key of their hashes."""

from sqlalchemy import Index, LargeBinary, Text
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
