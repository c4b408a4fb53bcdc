"""Bodies: read whole, up to a size and within a deadline, and looked at before anything parses them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunefarm_services.api.caller import STATE_KEY
from tunefarm_services.api.json_nesting import nests_deeper
from tunefarm_services.api.problem import ApiProblem, ProblemKind
from tunefarm_services.api.settings import ApiSettings

BODY_KEY: Final = "tunefarm_body"
"""Where the body is left in a request's scope, for those who need all of it."""

UPLOADS: Final = "/v1/uploads/"
WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
ANNOUNCE_BODY: Final = frozenset({"content-length", "transfer-encoding"})
SMALL_BYTES: Final = 1 << 18
HELD_BYTES: Final = 1 << 29
"""Of all bodies that one process has at once."""


class _Gone(Exception):
    """The caller left while sending."""


class RequestBody:
    """Hands on a request with its body, or refuses it as too large, too slow or nested too deeply."""

    def __init__(self, app: ASGIApp, settings: ApiSettings) -> None:
        self._app = app
        self._settings = settings
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._counting() as count:
            try:
                body = await self._body(scope, receive, count)
            except ApiProblem as problem:
                await problem.send(scope, receive, send)
                return
            except _Gone:
                return
            scope[BODY_KEY] = body
            await self._app(scope, _replay(body, receive), send)

    @contextmanager
    def _counting(self) -> Iterator[Callable[[int], None]]:
        """Counts the bytes of one body until its request is answered. Raises ApiProblem when all have too many."""
        mine_bytes = 0

        def count(size_bytes: int) -> None:
            nonlocal mine_bytes
            mine_bytes += size_bytes
            self._held_bytes += size_bytes
            if self._held_bytes > HELD_BYTES:
                headers = {"Retry-After": "2", "Connection": "close"}
                raise ApiProblem(ProblemKind.UNAVAILABLE, "Too many large requests arrive at once.", headers=headers)

        try:
            yield count
        finally:
            self._held_bytes -= mine_bytes

    async def _body(self, scope: Scope, receive: Receive, count: Callable[[int], None]) -> bytes:
        headers = Headers(scope=scope)
        if scope["method"] in WITHOUT_BODY and not ANNOUNCE_BODY.intersection(headers):
            return b""
        limit_bytes = self._limit_bytes(scope)
        declared = headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > limit_bytes:
            raise _too_large(limit_bytes)
        try:
            with anyio.fail_after(self._settings.body_deadline_s):
                body = await _read(receive, limit_bytes, count)
        except TimeoutError as late:
            detail = f"The body did not arrive within {self._settings.body_deadline_s:g} s."
            raise ApiProblem(ProblemKind.TIMEOUT, detail, headers={"Connection": "close"}) from late
        if body and not scope["path"].startswith(UPLOADS):
            await self._require_shallow(body)
        return body

    def _limit_bytes(self, scope: Scope) -> int:
        if STATE_KEY not in scope:
            return 0  # what is shown to everybody takes nothing
        if scope["method"] in WITHOUT_BODY:
            return min(self._settings.body_bytes, SMALL_BYTES)
        is_piece = scope["path"].startswith(UPLOADS)
        return self._settings.upload_piece_bytes if is_piece else self._settings.body_bytes

    async def _require_shallow(self, body: bytes) -> None:
        depth = self._settings.json_depth
        if len(body) < SMALL_BYTES:
            is_deep = nests_deeper(body, depth)
        else:
            is_deep = await to_thread.run_sync(nests_deeper, body, depth)
        if is_deep:
            fix = "Nothing that is read here is nested that deeply; send what tvm.ir.save_json writes as text."
            detail = f"The body is nested more than {depth} levels deep. {fix}"
            raise ApiProblem(ProblemKind.BAD_INPUT, detail, field="body", fix=fix)


async def _read(receive: Receive, limit_bytes: int, count: Callable[[int], None]) -> bytes:
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
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(limit_bytes: int) -> ApiProblem:
    detail = f"The body may have {limit_bytes} bytes. Send larger content in pieces: POST /v1/uploads."
    return ApiProblem(ProblemKind.TOO_LARGE, detail, headers={"Connection": "close"})


def _replay(body: bytes, receive: Receive) -> Receive:
    """What the application receives: the body once, then whatever the connection tells."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed
