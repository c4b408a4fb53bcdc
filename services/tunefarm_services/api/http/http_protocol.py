"""HTTP connections with limits on time, size and number that apply before anything parses their content."""

import asyncio
from typing import ClassVar, Final

import structlog
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tunefarm_services.api.http.connections import Connections
from tunefarm_services.api.http.request_framing import HeadLimits, RequestFraming
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind, unavailable
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.dashboard.session import STATE_KEY

log = structlog.get_logger()

PUBLIC: Final = frozenset({"/healthz", "/readyz"})
"""Paths that are served without a token, and even while all connections are in use."""

HELD_BYTES: Final = 1 << 16
"""Maximum bytes of requests that arrive before the previous one is answered; beyond it nothing more is read."""
LINGER_S: Final = 1.0
LINGER_BYTES: Final = 1 << 18
"""How long, and how much, a refused client may still send. Closing at once would reset the connection, and the client
would lose the answer before reading it."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which receives whole heads that obey RFC 9112, one request at a time.

    uvicorn itself waits for ever for a head that arrives byte by byte, buffers it without limit, and rejects all
    clients once idle connections reach its limit.
    """

    head_deadline_s: ClassVar[float]
    limits: ClassVar[HeadLimits]
    open_connections: ClassVar[Connections]

    _timer: asyncio.TimerHandle | None = None
    _refused_bytes: int | None = None
    _is_lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._framing = RequestFraming(self.limits)
        self._wait(self.head_deadline_s)
        address = self.client[0] if self.client else "local socket"
        if not self.open_connections.opened(self, address):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel every timer of the connection."""
        self._is_lost = True
        self.open_connections.closed(self)
        self._stop_waiting()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def make_room(self) -> None:
        """Close the idle connection to make room for another one."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # close() would wait until the client reads its last answer
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Pass on bytes that complete a head or belong to a body."""
        if self._refused_bytes is not None:
            self._refused_bytes += len(data)
            if self._refused_bytes > LINGER_BYTES:
                self.transport.abort()
            return
        self._unset_keepalive_if_required()
        self._framing.receive(data)
        self._go_on()

    def pause_writing(self) -> None:
        """Count the connection as idle: a client that does not read would otherwise occupy it indefinitely."""
        super().pause_writing()
        self._rest()

    def resume_writing(self) -> None:
        """Count it as in use again if there is more to answer."""
        super().resume_writing()
        if self._is_answering():
            self.open_connections.works(self)

    def on_headers_complete(self) -> None:
        """Answer the request, or report that all connections are in use."""
        self._stop_waiting()
        if not self.flow.write_paused:  # a client that does not read its answers waits for itself
            self.open_connections.works(self)
        is_public = self.url.partition(b"?")[0].decode("latin-1") in PUBLIC
        self.app = _full if self.open_connections.is_full and not is_public else self.config.loaded_app
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Record a field of the head, without the trailing blanks that llhttp keeps."""
        super().on_header(name, value.rstrip(b" \t"))

    def on_response_complete(self) -> None:
        """Continue with the next request, unless the last one was answered before all of it arrived."""
        super().on_response_complete()
        if self._is_lost or self.transport.is_closing():
            return
        if not self._framing.is_between:
            self._linger()
            return
        self._rest()
        if self._framing.held_bytes:
            self._unset_keepalive_if_required()
            self._go_on()

    def send_400_response(self, msg: str) -> None:
        """Answer input that the parser cannot read with a problem."""
        self._refuse(ApiProblem(ProblemKind.MALFORMED, msg))

    def _go_on(self) -> None:
        """Pass everything of the current request to the parser, and the next request once it is answered."""
        try:
            while not self._is_over() and not (self._framing.is_between and self._is_answering()):
                piece = self._framing.take()
                if not piece:
                    break
                super().data_received(piece)
        except ApiProblem as problem:
            self._refuse(problem)
            return
        if self._is_over() or not self._framing.is_between:
            return
        if not self._is_answering():
            self._wait(self.head_deadline_s)
        elif self._framing.held_bytes > HELD_BYTES:
            self.flow.pause_reading()

    def _rest(self) -> None:
        is_known = self.cycle is not None and STATE_KEY in self.cycle.scope
        self.open_connections.rests(self, is_known=is_known)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_over(self) -> bool:
        return self._is_lost or self._refused_bytes is not None or self.transport.is_closing()

    def _refuse(self, problem: ApiProblem) -> None:
        """Answer a request that no application sees, and close the connection."""
        if self._is_over():
            return
        log.info("connection refused", status=problem.problem.status, reason=problem.problem.detail)
        if self._is_answering():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.close()
                return
        response = problem.response()
        head = [STATUS_LINE[response.status_code]]
        head += [name + b": " + value + b"\r\n" for name, value in response.raw_headers]
        self.transport.write(b"".join(head) + b"connection: close\r\n\r\n" + bytes(response.body))
        self._linger()

    def _linger(self) -> None:
        """Close the connection once the client has had time to read the answer."""
        self._unset_keepalive_if_required()
        self._stop_waiting()
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        self._refused_bytes = 0
        self.open_connections.rests(self, is_known=False)
        self.flow.resume_reading()
        self.transport.write_eof()
        self._wait(LINGER_S)

    def _wait(self, within_s: float) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(within_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()


def bounded_protocol(settings: ApiSettings) -> type[BoundedProtocol]:
    """The protocol of one process with its limits and connections, for ``uvicorn.Config(http=...)``."""
    members = {
        "head_deadline_s": settings.header_deadline_s,
        "limits": HeadLimits(settings.head_bytes, settings.head_fields, settings.target_bytes),
        "open_connections": Connections(settings.connections, settings.idle_connections_per_address),
    }
    return type("BoundedProtocol", (BoundedProtocol,), members)


async def _full(scope: Scope, receive: Receive, send: Send) -> None:
    problem = unavailable("All connections are in use.", 2)
    problem.headers["Connection"] = "close"
    await problem.send(scope, receive, send)
