"""A small HTTP server for a process without an API: its metrics and its health."""

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self

from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.telemetry.metrics import CONTENT_TYPE, Metrics

_SLOW_CLIENT_S: Final = 5.0


class MetricsServer:
    """Answers ``/metrics`` and ``/healthz`` in a thread of its own until it is closed."""

    def __init__(self, listen: str, metrics: Metrics, is_well: Callable[[], bool] = lambda: True) -> None:
        """Listen on ``listen``, written HOST:PORT; port 0 uses a free one.

        ``is_well`` is called for every ``/healthz``, on another thread.

        Raises:
            BadInput: it cannot listen there.
        """
        host, port = _address(listen)

        class Handler(_Handler):
            answers = metrics
            well = staticmethod(is_well)

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise BadInput(
                "TUNEFARM_METRICS_LISTEN", f"{listen} cannot be used ({error.strerror}).", "Choose another port."
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL of the server."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    """Serves two paths; other requests get no information."""

    answers: Metrics
    well: Callable[[], bool]
    timeout = _SLOW_CLIENT_S
    server_version = "tunefarm"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a scrape or a probe."""
        if self.path == "/metrics":
            self._answer(HTTPStatus.OK, CONTENT_TYPE, self.answers.text())
        elif self.path == "/healthz":
            status = HTTPStatus.OK if self.well() else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(status, "text/plain", status.phrase.encode() + b"\n")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"Not Found\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the library calls it by
        """Log nothing: probes come every few seconds."""

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadInput("TUNEFARM_METRICS_LISTEN", f"{listen!r} is not HOST:PORT.", "Write 127.0.0.1:9464.")
    return host.strip("[]"), int(port)
