"""Logging in and out."""

from typing import Final
from urllib.parse import quote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tunefarm_services.dashboard.parts import parts_of
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.rendering import HEADERS, page
from tunefarm_services.dashboard.session import (
    LINK_S,
    SESSION_S,
    begin_session,
    end_session,
    read_action,
    read_form,
    session_text,
    viewer_of,
)

SESSION_NAME: Final = "browser session"
LINK_NAME: Final = "link to a browser session"


async def show_login(request: Request) -> Response:
    """The page that asks for a token."""
    return page(request, "login.html", {"next": _next(request, request.query_params.get("next", "")), "problem": ""})


async def log_in(request: Request) -> Response:
    """Begin a session with the token of the form."""
    fields = await read_form(request)
    after = _next(request, fields.get("next", ""))
    text = await _session(request, fields.get("token", "").strip()[:200], once=False)
    if text is None:
        problem = "This token is unknown, revoked or expired. Create one with: tunefarm token create"
        return page(request, "login.html", {"next": after, "problem": problem}, status=401)
    return _begin(request, text, after)


async def log_out(request: Request) -> Response:
    """End the session, here and on the server."""
    await read_action(request)
    viewer, parts = viewer_of(request), parts_of(request)
    if viewer is not None:
        await to_thread.run_sync(parts.store.tokens.revoke, viewer.tenant, viewer.token_id)
        parts.forget_tokens()
    response = RedirectResponse(f"{request.scope['root_path']}/login", 303, headers=HEADERS)
    end_session(request, response)
    return response


async def make_link(request: Request) -> Response:
    """A link that logs in the first client that opens it within a minute, for the holder of a token.

    The token is in the Authorization header: a page of another site cannot send one.
    """
    given = request.headers.get("authorization", "").partition(" ")[2].strip()[:200]
    parts = parts_of(request)

    def create() -> str | None:
        return parts.store.tokens.open_session(given, LINK_S, LINK_NAME) if given else None

    text = await to_thread.run_sync(create)
    if text is None:
        raise PageProblem(401, "The token is missing, unknown, revoked or expired.")
    path = f"{request.scope['root_path']}/enter?link={quote(text)}"
    return JSONResponse({"path": path, "seconds": LINK_S}, 201, headers=HEADERS)


async def enter(request: Request) -> Response:
    """Begin a session by a link."""
    text = await _session(request, request.query_params.get("link", "")[:200], once=True)
    if text is None:
        problem = "This link was used or has expired. Make another one with: tunefarm open"
        return page(request, "login.html", {"next": _next(request, ""), "problem": problem}, status=401)
    return _begin(request, text, _next(request, ""))


async def _session(request: Request, text: str, *, once: bool) -> str | None:
    parts = parts_of(request)

    def create() -> str | None:
        return parts.store.tokens.open_session(text, SESSION_S, SESSION_NAME, once=once) if text else None

    made = await to_thread.run_sync(create)
    if once and made is not None:
        parts.forget_tokens()
    old = session_text(request.scope)
    if made is not None and old and (viewer := viewer_of(request)) is not None:
        await to_thread.run_sync(parts.store.tokens.revoke, viewer.tenant, viewer.token_id)
    return made


def _begin(request: Request, text: str, after: str) -> Response:
    response = RedirectResponse(after, 303, headers=HEADERS)
    begin_session(request, response, text)
    return response


def _next(request: Request, asked: str) -> str:
    """Where to go after logging in: one of our pages, never another site."""
    root = str(request.scope.get("root_path", ""))
    is_ours = asked.startswith(f"{root}/") and "\\" not in asked and "//" not in asked and asked.isprintable()
    return asked if is_ours and not asked.startswith(f"{root}/login") else f"{root}/"


ROUTES: Final = (
    Route("/login", show_login, methods=["GET"]),
    Route("/login", log_in, methods=["POST"]),
    Route("/logout", log_out, methods=["POST"]),
    Route("/links", make_link, methods=["POST"]),
    Route("/enter", enter, methods=["GET"]),
)
