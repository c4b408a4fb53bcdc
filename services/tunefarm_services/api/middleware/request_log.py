"""An id, a log line and metrics for every request."""

import re
import secrets
import time
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunefarm_services.api.http.problem_handlers import problem_of
from tunefarm_services.telemetry.logs import bind
from tunefarm_services.telemetry.metrics import Metrics

log = structlog.get_logger()

_GIVEN_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
NOTHING_SENT: Final = 499
"""Status in the log if the caller disconnected before an answer began."""

_STREAM: Final = "text/event-stream"
_REFUSALS: Final = {401: "token", 403: "scope", 413: "size", 429: "rate"}
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})


class RequestLog:
    """Assigns each request an id, which X-Request-ID and every log line of the request contain."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _GIVEN_ID.fullmatch(given) else secrets.token_hex(8)
        seen = _Seen()

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
                seen.status = message["status"]
                seen.is_stream = headers.get("content-type", "").startswith(_STREAM)
            await send(message)

        self._metrics.http_requests_in_flight.inc()
        with bind(request_id=request_id):
            try:
                await self._app(scope, receive, noting)
            except Exception as error:  # noqa: BLE001 - the last place where a bug can become an answer
                await self._answer_bug(error, seen, scope, receive, noting)
            finally:
                self._metrics.http_requests_in_flight.dec()
                self._tell(scope, seen)

    async def _answer_bug(self, error: Exception, seen: "_Seen", scope: Scope, receive: Receive, send: Send) -> None:
        problem = problem_of(error)
        if seen.status == NOTHING_SENT:
            await problem.send(scope, receive, send)

    def _tell(self, scope: Scope, seen: "_Seen") -> None:
        latency_s = time.perf_counter() - seen.began_s
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.http_requests.labels(method=method, route=route, status=str(seen.status)).inc()
        if not seen.is_stream:
            self._metrics.http_request_seconds.labels(method=method, route=route).observe(latency_s)
        if seen.status in _REFUSALS:
            self._metrics.requests_refused.labels(reason=_REFUSALS[seen.status]).inc()
        told = log.info if seen.status < 500 else log.error
        told(
            "request",
            method=method,
            path=scope["path"][:200],
            route=route,
            status=seen.status,
            latency_s=round(latency_s, 6),
        )


class _Seen:
    """The outcome of a request."""

    def __init__(self) -> None:
        self.began_s = time.perf_counter()
        self.status = NOTHING_SENT
        self.is_stream = False
