"""HTTP connections that have to say what they want in time."""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class PromptProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which closes a connection whose request has no complete head within ``head_deadline_s``.

    uvicorn itself waits for ever for a head that arrives byte by byte.
    """

    head_deadline_s: ClassVar[float] = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        """Begin to wait for the rest of a head."""
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody waits any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.head_deadline_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()


def prompt_protocol(head_deadline_s: float) -> type[PromptProtocol]:
    """The protocol with a deadline of its own, for ``uvicorn.Config(http=...)``."""
    return type("PromptProtocol", (PromptProtocol,), {"head_deadline_s": head_deadline_s})
