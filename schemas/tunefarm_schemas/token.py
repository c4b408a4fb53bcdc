"""Tokens and their permissions."""

from enum import StrEnum

from pydantic import BaseModel, Field

from tunefarm_schemas.frozen import Frozen


class Scope(StrEnum):
    """A permission of a token within its tenant."""

    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    RECORDS_READ = "records:read"
    RECORDS_WRITE = "records:write"
    DEVICES_READ = "devices:read"
    DEVICES_ADMIN = "devices:admin"
    ARTIFACTS_READ = "artifacts:read"
    ARTIFACTS_PUBLISH = "artifacts:publish"
    TOKENS_ADMIN = "tokens:admin"
    USAGE_READ = "usage:read"
    EDGE_POLL = "edge:poll"
    """Of an edge device: it polls, reports and fetches its channel, and nothing else."""


class Token(Frozen):
    """A token without its secret. Times are RFC 3339, UTC.

    Its text, shown once, is ``tfk_<token_id>_<secret>`` with 256 random bits as base64url; only a keyed hash is stored.
    """

    token_id: str
    tenant: str = Field(min_length=1, max_length=100)
    name: str = Field(min_length=1, max_length=200)
    scopes: tuple[Scope, ...] = Field(min_length=1)
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    """To the minute: recording every use would turn each read into a write."""


class NewToken(BaseModel):
    """A token with its text, which is shown once. A repeated request returns null instead of the text."""

    token: Token
    text: str | None
