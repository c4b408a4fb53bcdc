"""Calls for tokens."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tunefarm.http.paging import listed
from tunefarm.http.request import Flow, Reply, Request
from tunefarm_schemas.token import NewToken, Scope, Token


def tokens(limit: int | None = None) -> Flow[list[Token]]:
    """Tokens of the caller's tenant, without their secrets."""
    return listed("/tokens", Token, {}, limit)


def new_token(name: str, scopes: Sequence[Scope | str], expires_at: datetime | None = None) -> Flow[NewToken]:
    """Create a token with no more scopes than the caller's own. Its secret is returned only once."""
    body: dict[str, Any] = {"name": name, "scopes": [str(scope) for scope in scopes]}
    if expires_at is not None:
        body["expires_at"] = expires_at.isoformat()
    reply: Reply = yield Request("POST", "/tokens", body=body, creates=True)
    return reply.read(NewToken)


def token_revocation(token_id: str) -> Flow[None]:
    """Revoke a token permanently, with immediate effect."""
    yield Request("POST", f"/tokens/{token_id}:revoke")


def token_rotation(token_id: str) -> Flow[NewToken]:
    """Replace the secret of a token; the old one becomes invalid."""
    reply: Reply = yield Request("POST", f"/tokens/{token_id}:rotate", creates=True)
    return reply.read(NewToken)
