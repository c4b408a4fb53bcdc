"""Browser sessions: a cookie with the text of a short-lived token that was made of the user's own."""

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope as AsgiScope

from tunefarm_schemas.token import Scope, Token
from tunefarm_services.dashboard.refusal import PageProblem

PREFIX: Final = "/dashboard"
SESSION_S: Final = 12 * 3600.0
LINK_S: Final = 60.0
"""How long a link from the command line to the logged-in page may be opened."""
STATE_KEY: Final = "tunefarm_token"
"""Key of a request's scope under which the authentication stores the caller's token."""


def cookie_name(scope: AsgiScope) -> str:
    """The cookie's name: browsers share cookies among the ports of a host, and two services may run there."""
    server = scope.get("server") or ("", 0)
    return f"tunefarm_session_{server[1] or 0}"


def session_text(scope: AsgiScope) -> str:
    """The token text in the session cookie of a request; empty without one."""
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(Headers(scope=scope).get("cookie", ""))
    except CookieError:
        return ""
    found = cookies.get(cookie_name(scope))
    return found.value if found is not None and len(found.value) <= 200 else ""


def begin_session(request: Request, response: Response, text: str) -> None:
    """Set the session cookie, which scripts cannot read and other sites cannot send with a form."""
    response.set_cookie(
        cookie_name(request.scope),
        text,
        max_age=int(SESSION_S),
        path=_path(request),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )


def end_session(request: Request, response: Response) -> None:
    """Delete the session cookie."""
    response.delete_cookie(cookie_name(request.scope), path=_path(request), httponly=True, samesite="lax")


def viewer_of(request: Request) -> Token | None:
    """The token of the session, or None."""
    token = request.scope.get(STATE_KEY)
    return token if isinstance(token, Token) else None


def require_viewer(request: Request, *scopes: Scope) -> Token:
    """The token of the session.

    Raises:
        PageProblem: 401 without a session, 403 without one of the scopes.
    """
    viewer = viewer_of(request)
    if viewer is None:
        raise PageProblem(401, "Log in to see this page.")
    missing = [scope.value for scope in scopes if scope not in viewer.scopes]
    if missing:
        raise PageProblem(403, f"This page needs a token with the scope {', '.join(missing)}.")
    return viewer


def form_key(request: Request) -> str:
    """What each form of the session carries, and no other site knows."""
    return hmac.digest(session_text(request.scope).encode(), b"tunefarm form", hashlib.sha256).hex()


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form that was sent by one of our pages.

    Raises:
        PageProblem: another site sent it, or it cannot be read.
    """
    require_same_origin(request)
    try:
        fields = parse_qs((await request.body()).decode(), max_num_fields=50)
    except (UnicodeDecodeError, ValueError) as error:
        raise PageProblem(400, "The form cannot be read.") from error
    return {name: values[-1] for name, values in fields.items()}


async def read_action(request: Request) -> dict[str, str]:
    """The fields of a form of a session. Raises PageProblem, also if it does not carry the session's key."""
    fields = await read_form(request)
    if not hmac.compare_digest(fields.get("form_key", "").encode(), form_key(request).encode()):
        raise PageProblem(403, "This form is of an ended session. Open the page again.")
    return fields


def require_same_origin(request: Request) -> None:
    """Raises PageProblem if a page of another site sent the request."""
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site not in {"same-origin", "none"} or (origin is not None and urlsplit(origin).netloc != host):
        raise PageProblem(403, "This request came from a page of another site.")


def _path(request: Request) -> str:
    return request.scope.get("root_path") or PREFIX
