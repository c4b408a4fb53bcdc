"""Tokens of the viewer's tenant, for administrators: list, create, rotate, revoke."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.token import Scope, Token
from tunefarm_schemas.visible_text import visible_line
from tunefarm_services.dashboard.forms import carried_out_once, once_key
from tunefarm_services.dashboard.parts import DashboardParts, parts_of
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.rendering import HEADERS, page
from tunefarm_services.dashboard.session import read_action, require_viewer
from tunefarm_services.store import NotFound

TOKENS_ON_PAGE: Final = 50
MAX_DAYS: Final = 3650
_SCOPE_PREFIX: Final = "scope "


def show_tokens(request: Request) -> Response:
    """The tokens by pages, and the form for a new one."""
    viewer, parts = require_viewer(request, Scope.TOKENS_ADMIN), parts_of(request)
    return _page(request, parts, viewer, None)


async def create(request: Request) -> Response:
    """Create a token and show its text, once."""
    viewer, parts = require_viewer(request, Scope.TOKENS_ADMIN), parts_of(request)
    fields = await read_action(request)

    def make() -> tuple[Token, str]:
        name = visible_line(fields.get("name", "").strip())
        if not 0 < len(name) <= 200:
            raise BadInput("name", "it is empty or too long.", "Use 1 to 200 characters.")
        scopes = tuple(scope for scope in Scope if f"{_SCOPE_PREFIX}{scope.value}" in fields)
        if not scopes:
            raise BadInput("scopes", "none is chosen.", "Choose at least one.")
        _require_scopes(viewer, scopes)
        return parts.store.tokens.create(viewer.tenant, name, scopes, _end(fields.get("days", "")))

    return await _with_secret(request, parts, viewer, fields, make)


async def rotate(request: Request) -> Response:
    """Replace the secret of a token and show the new text, once."""
    viewer, parts = require_viewer(request, Scope.TOKENS_ADMIN), parts_of(request)
    fields = await read_action(request)
    token_id = request.path_params["token_id"]

    def make() -> tuple[Token, str]:
        _require_scopes(viewer, _listed(parts, viewer, token_id).scopes)
        made = parts.store.tokens.rotate(viewer.tenant, token_id)
        parts.forget_tokens()
        return made

    return await _with_secret(request, parts, viewer, fields, make)


async def revoke(request: Request) -> Response:
    """Revoke a token permanently."""
    viewer, parts = require_viewer(request, Scope.TOKENS_ADMIN), parts_of(request)
    await read_action(request)
    token_id = request.path_params["token_id"]

    def end() -> None:
        parts.store.tokens.revoke(viewer.tenant, _listed(parts, viewer, token_id).token_id)
        parts.forget_tokens()

    await to_thread.run_sync(end)
    return RedirectResponse(f"{request.scope['root_path']}/tokens", 303, headers=HEADERS)


async def _with_secret(
    request: Request,
    parts: DashboardParts,
    viewer: Token,
    fields: Mapping[str, str],
    make: Callable[[], tuple[Token, str]],
) -> Response:
    """The page with the text of a token that this request made, or without it if the form was sent before."""
    made: list[tuple[Token, str]] = []

    def work(_key: str) -> str:
        made.append(make())
        return "/tokens"

    def carry_out() -> Response:
        carried_out_once(parts.store.idempotency_keys, viewer.tenant, request.url.path, fields, work)
        return _page(request, parts, viewer, made[0] if made else None, was_sent_before=not made)

    return await to_thread.run_sync(carry_out)


def _page(
    request: Request,
    parts: DashboardParts,
    viewer: Token,
    made: tuple[Token, str] | None,
    *,
    was_sent_before: bool = False,
) -> Response:
    now = datetime.now(UTC).isoformat()
    found = parts.store.tokens.of_people(viewer.tenant)
    after = request.query_params.get("after", "")
    positions = [number for number, each in enumerate(found) if each.token_id == after]
    behind = found[positions[0] + 1 :] if positions else found
    shown = behind[:TOKENS_ON_PAGE]
    states = [
        "revoked" if e.revoked_at else "expired" if e.expires_at and e.expires_at < now else "works" for e in shown
    ]
    values = {
        "tokens": [(each, state, once_key()) for each, state in zip(shown, states, strict=True)],
        "scopes": [scope.value for scope in Scope if scope in viewer.scopes and scope is not Scope.EDGE_POLL],
        "prefix": _SCOPE_PREFIX,
        "once": once_key(),
        "made": made,
        "was_sent_before": was_sent_before,
        "max_days": MAX_DAYS,
        "after": after,
        "next_after": shown[-1].token_id if len(behind) > TOKENS_ON_PAGE else None,
    }
    return page(request, "tokens.html", values)


def _listed(parts: DashboardParts, viewer: Token, token_id: str) -> Token:
    found = next((each for each in parts.store.tokens.of_people(viewer.tenant) if each.token_id == token_id), None)
    if found is None:
        raise NotFound("token", token_id)
    return found


def _require_scopes(viewer: Token, scopes: Iterable[Scope]) -> None:
    """Prevent a viewer from creating a token with more permissions than its own."""
    missing = sorted({scope.value for scope in scopes if scope not in viewer.scopes})
    if missing:
        raise PageProblem(403, f"Your own token lacks {', '.join(missing)}, so it cannot grant it.")


def _end(days: str) -> str | None:
    days = days.strip()
    if not days:
        return None
    number = int(days) if days.isascii() and days.isdigit() and len(days) < 6 else 0
    if not 0 < number <= MAX_DAYS:
        raise BadInput("days", f"{days[:50]!r} is not a number of days.", f"Write 1 to {MAX_DAYS}, or leave it empty.")
    return (datetime.now(UTC) + timedelta(days=number)).isoformat()


ROUTES: Final = (
    Route("/tokens", show_tokens, methods=["GET"]),
    Route("/tokens", create, methods=["POST"]),
    Route("/tokens/{token_id}/rotate", rotate, methods=["POST"]),
    Route("/tokens/{token_id}/revoke", revoke, methods=["POST"]),
)
