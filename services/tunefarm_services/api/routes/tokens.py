"""Tokens of the caller's tenant."""

from collections.abc import Iterable

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from tunefarm_schemas.token import NewToken, Scope, Token
from tunefarm_schemas.views.page import Page
from tunefarm_services.api.access.caller import AnyCaller, Caller, TokensAdmin
from tunefarm_services.api.bodies.body import Body, Instant, Name, with_examples
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.json_route import JsonRoute
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import LOCATION, responses
from tunefarm_services.api.operations.parts import Parts, PartsOf
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind
from tunefarm_services.api.routes.path import Id
from tunefarm_services.store import NotFound

router = APIRouter(prefix="/v1", tags=["tokens"], route_class=JsonRoute)


class TokenBody(Body):
    """A token of the caller's tenant. Its scopes must be a subset of the caller's."""

    model_config = with_examples(
        {
            "name": "continuous integration",
            "scopes": ["jobs:read", "jobs:write"],
            "expires_at": "2027-01-01T00:00:00Z",
        }
    )

    name: Name
    scopes: list[Scope] = Field(min_length=1, max_length=len(Scope))
    expires_at: Instant = Field(default=None, description="RFC 3339 with an offset; never if absent.")


@router.post(
    "/tokens",
    response_model=NewToken,
    status_code=201,
    responses=responses(ProblemKind.CONFLICT, s201={"headers": LOCATION}),
)
def create(body: TokenBody, caller: TokensAdmin, parts: PartsOf) -> Response:
    """Create a token. Its text is shown once. Its scopes must be a subset of the caller's."""
    _require_scopes(caller, body.scopes)
    expires_at = None if body.expires_at is None else body.expires_at.isoformat()
    token, text = parts.store.tokens.create(caller.tenant, body.name, tuple(body.scopes), expires_at)
    return answer(NewToken(token=token, text=text), 201, Location=f"/v1/tokens/{token.token_id}")


@router.get("/tokens", response_model=Page[Token], responses=responses())
def list_tokens(
    caller: TokensAdmin, parts: PartsOf, page_size: PageSize = DEFAULT_SIZE, page_token: PageToken = None
) -> Response:
    """List tokens of the tenant, without their secrets."""
    paging = Paging("tokens", page_size, page_token)
    found = sorted(parts.store.tokens.of_tenant(caller.tenant), key=lambda token: token.token_id)
    behind = [token for token in found if paging.after is None or token.token_id > paging.after]
    return answer(paging.page(behind, lambda token: token.token_id, lambda token: token))


@router.get("/tokens:own", response_model=Token, responses=responses())
async def get_own(caller: AnyCaller) -> Response:
    """Return the token of this request: its tenant, its scopes and when it expires."""
    return answer(caller.token)


@router.get("/tokens/{token_id}", response_model=Token, responses=responses(ProblemKind.NOT_FOUND))
def get(token_id: Id, caller: TokensAdmin, parts: PartsOf) -> Response:
    """One token."""
    return answer(_token(parts, caller, token_id))


@router.post("/tokens/{token_id}:revoke", response_model=Token, responses=responses(ProblemKind.NOT_FOUND))
def revoke(token_id: Id, caller: TokensAdmin, parts: PartsOf) -> Response:
    """Revoke a token permanently."""
    return answer(_revoked(parts, caller, token_id))


@router.delete("/tokens/{token_id}", status_code=204, responses=responses(ProblemKind.NOT_FOUND))
def delete(token_id: Id, caller: TokensAdmin, parts: PartsOf) -> Response:
    """Revoke a token. Its usage stays recorded."""
    _revoked(parts, caller, token_id)
    return Response(status_code=204)


@router.post("/tokens/{token_id}:rotate", response_model=NewToken, responses=responses(ProblemKind.NOT_FOUND))
def rotate(token_id: Id, caller: TokensAdmin, parts: PartsOf) -> Response:
    """Replace the secret of a token. The new one is shown once; the old one becomes invalid immediately."""
    _require_scopes(caller, _token(parts, caller, token_id).scopes)
    token, text = parts.store.tokens.rotate(caller.tenant, token_id)
    parts.tokens.forget()
    return answer(NewToken(token=token, text=text))


def _revoked(parts: Parts, caller: Caller, token_id: str) -> Token:
    token = parts.store.tokens.revoke(caller.tenant, token_id)
    parts.tokens.forget()
    return token


def _token(parts: Parts, caller: Caller, token_id: str) -> Token:
    for token in parts.store.tokens.of_tenant(caller.tenant):
        if token.token_id == token_id:
            return token
    raise NotFound("token", token_id)


def _require_scopes(caller: Caller, scopes: Iterable[Scope]) -> None:
    """Prevent a caller from creating a token with more permissions than its own."""
    missing = sorted({scope.value for scope in scopes if not caller.may(scope)})
    if missing:
        detail = f"The caller's own token lacks {', '.join(missing)}, so it cannot grant it."
        raise ApiProblem(ProblemKind.FORBIDDEN, detail)
