"""A span for every request of an ASGI application."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tunefarm_services.telemetry.traces import Traces

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


class RequestSpans:
    """Wraps an ASGI application. The caller's ``traceparent`` header is the parent of the request's span."""

    def __init__(self, application: Application, traces: Traces) -> None:
        self._application = application
        self._traces = traces

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer one request, or handle the application's lifespan."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == b"traceparent"), b"")
        parent = given.decode("latin-1") or None
        with self._traces.span(f"HTTP {scope['method'][:10]}", parent=parent, path=scope["path"][:200]):
            await self._application(scope, receive, send)
