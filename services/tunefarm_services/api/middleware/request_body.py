"""Bodies: read whole, within limits of size and time, and checked before anything parses them."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunefarm_schemas.token import Token
from tunefarm_services.api.http.json_nesting import PIECE_BYTES, JsonExtent
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.dashboard.session import PREFIX, STATE_KEY

BODY_KEY: Final = "tunefarm_body"
"""Key of a request's scope for the whole body."""

UPLOADS: Final = ("/v1/uploads/", "/v1/repository/files/")
EDGE: Final = "/v1/edge/"
EDGE_BYTES: Final = 1 << 19
"""Maximum size of what an edge device sends: 200 reports."""
PAGES: Final = f"{PREFIX}/"
FORM_BYTES: Final = 1 << 16
WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
ANNOUNCE_BODY: Final = frozenset({"content-length", "transfer-encoding"})
SMALL_BYTES: Final = 1 << 18
HELD_BYTES: Final = 1 << 29
"""Total size of all bodies that one process holds."""
JSON_TYPES: Final = re.compile(r"application/([a-z0-9.+-]+\+)?json")


_SEND_JSON: Final = "Send JSON, with the header field Content-Type: application/json."


class _Gone(Exception):
    """Raised when the caller disconnects while sending."""


class RequestBody:
    """Passes on a request with its body, or rejects it as too large, too slow or nested too deeply."""

    def __init__(self, app: ASGIApp, settings: ApiSettings) -> None:
        self._app = app
        self._settings = settings
        self._held_bytes = 0
        self._held_of: Counter[str] = Counter()
        self._arriving_of: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        tenant = _tenant(scope)
        with self._counting(tenant) as count:
            try:
                with self._arriving(tenant, scope):
                    body = await self._body(scope, receive, count)
            except ApiProblem as problem:
                await problem.send(scope, receive, send)
                return
            except _Gone:
                return
            scope[BODY_KEY] = body
            await self._app(scope, _replay(body, receive), send)

    @contextmanager
    def _arriving(self, tenant: str, scope: Scope) -> Iterator[None]:
        """Count a body while it arrives. Raises ApiProblem if the tenant sends too many at the same time."""
        if not tenant or not ANNOUNCE_BODY.intersection(Headers(scope=scope)):
            yield
            return
        if self._arriving_of[tenant] >= self._settings.bodies_per_tenant:
            raise _busy(f"The tenant sends {self._settings.bodies_per_tenant} bodies at the same time.")
        self._arriving_of[tenant] += 1
        try:
            yield
        finally:
            _lower(self._arriving_of, tenant, 1)

    @contextmanager
    def _counting(self, tenant: str) -> Iterator[Callable[[int], None]]:
        """Count the bytes of one body until its request is answered. Raises ApiProblem if there are too many."""
        mine_bytes = 0

        def count(size_bytes: int) -> None:
            nonlocal mine_bytes
            mine_bytes += size_bytes
            self._held_bytes += size_bytes
            self._held_of[tenant] += size_bytes
            if self._held_of[tenant] > self._settings.body_bytes_per_tenant:
                raise _busy("Too many large requests of the tenant arrive at the same time.")
            if self._held_bytes > HELD_BYTES:
                headers = {"Retry-After": "2", "Connection": "close"}
                raise ApiProblem(ProblemKind.UNAVAILABLE, "Too many large requests arrive at once.", headers=headers)

        try:
            yield count
        finally:
            self._held_bytes -= mine_bytes
            _lower(self._held_of, tenant, mine_bytes)

    async def _body(self, scope: Scope, receive: Receive, count: Callable[[int], None]) -> bytes:
        headers = Headers(scope=scope)
        if scope["method"] in WITHOUT_BODY and not ANNOUNCE_BODY.intersection(headers):
            return b""
        limit_bytes = self._limit_bytes(scope)
        declared = headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > limit_bytes:
            raise _too_large(limit_bytes)
        is_json = not scope["path"].startswith((*UPLOADS, PAGES))
        if limit_bytes and scope["method"] not in WITHOUT_BODY and declared != "0":
            _require_readable(headers, is_json=is_json)
        extent = JsonExtent(self._settings.json_depth, self._settings.json_values) if is_json else None
        try:
            with anyio.fail_after(self._settings.body_deadline_s):
                return await _read(receive, limit_bytes, count, extent)
        except TimeoutError as late:
            detail = f"The body did not arrive within {self._settings.body_deadline_s:g} s."
            raise ApiProblem(ProblemKind.TIMEOUT, detail, headers={"Connection": "close"}) from late

    def _limit_bytes(self, scope: Scope) -> int:
        if scope["path"].startswith(PAGES):
            return FORM_BYTES
        if STATE_KEY not in scope:
            return 0  # public paths take no body
        if scope["method"] in WITHOUT_BODY:
            return min(self._settings.body_bytes, SMALL_BYTES)
        if scope["path"].startswith(EDGE):
            return min(self._settings.body_bytes, EDGE_BYTES)
        is_piece = scope["path"].startswith(UPLOADS)
        return self._settings.upload_piece_bytes if is_piece else self._settings.body_bytes


def _tenant(scope: Scope) -> str:
    token = scope.get(STATE_KEY)
    return token.tenant if isinstance(token, Token) else ""


def _lower(counter: Counter[str], name: str, amount: int) -> None:
    """Subtract, and remove names with a count of zero, so that the table does not grow."""
    counter[name] -= amount
    if counter[name] <= 0:
        del counter[name]


def _busy(detail: str) -> ApiProblem:
    return ApiProblem(ProblemKind.RATE_LIMITED, detail, headers={"Retry-After": "2", "Connection": "close"})


def _require_readable(headers: Headers, *, is_json: bool) -> None:
    """Reject a body by its header fields before it is received, if no route can read it.

    Raises:
        ApiProblem: it is compressed, in another encoding than UTF-8, or declared as not JSON.
    """
    coding = headers.get("content-encoding", "identity").strip().lower()
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]*)", parameters)
    field, problem = "Content-Type", ""
    if coding not in {"", "identity"}:
        field, problem = "Content-Encoding", "The body is compressed. Send it without a Content-Encoding."
    elif is_json and not kind.strip() and ANNOUNCE_BODY.intersection(headers):
        problem = f"It is missing. {_SEND_JSON}"
    elif is_json and kind.strip() and JSON_TYPES.fullmatch(kind.strip()) is None:
        problem = f"{kind.strip()[:100]} is not supported. {_SEND_JSON}"
    elif is_json and charset is not None and charset[1] not in {"utf-8", "utf8"}:
        problem = "The body is in another encoding. Send it in UTF-8."
    if problem:
        fix, headers_sent = problem.partition(". ")[2], {"Connection": "close"}
        detail = f"{field}: {problem}"
        raise ApiProblem(ProblemKind.UNSUPPORTED_MEDIA_TYPE, detail, field=field, fix=fix, headers=headers_sent)


async def _read(receive: Receive, limit_bytes: int, count: Callable[[int], None], extent: JsonExtent | None) -> bytes:
    pieces: list[bytes] = []
    size_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        pieces.append(message.get("body", b""))
        size_bytes += len(pieces[-1])
        if size_bytes > limit_bytes:
            raise _too_large(limit_bytes)
        count(len(pieces[-1]))
        if extent is not None and pieces[-1]:
            _require_small(extent, pieces[-1])
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _require_small(extent: JsonExtent, piece: bytes) -> None:
    for begin in range(0, len(piece), PIECE_BYTES):
        excess = extent.excess(piece[begin : begin + PIECE_BYTES])
        if excess:
            fix = "Send a module as the text that tvm.ir.save_json returns, or upload it: POST /v1/uploads."
            detail = f"The body cannot be read: {excess} {fix}"
            headers = {"Connection": "close"}
            raise ApiProblem(ProblemKind.BAD_INPUT, detail, field="body", fix=fix, headers=headers)


def _too_large(limit_bytes: int) -> ApiProblem:
    detail = f"A body may have at most {limit_bytes} bytes. Send larger content in pieces: POST /v1/uploads."
    return ApiProblem(ProblemKind.TOO_LARGE, detail, headers={"Connection": "close"})


def _replay(body: bytes, receive: Receive) -> Receive:
    """The application's ``receive``: the body once, then the events of the connection."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed
