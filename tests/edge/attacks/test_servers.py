"""A server that never ends, or almost never sends, does not hold or fill a device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.edge.attacks.conftest import Field
from tunefarm_edge.refusal import Refused
from tunefarm_edge.trust.http_source import HttpSource
from tunefarm_edge.trust.paced_connection import Pace, PaceMeter, TooSlow

HASTY = Pace(window_s=0.3, least_bytes_per_s=100_000.0)
"""A pace for tests, whose slow server would have to send a thousand times as much as it does."""


class Server(ThreadingHTTPServer):
    """Serves a repository's folder, except that the paths which ``odd`` accepts are answered by ``behave``."""

    daemon_threads = True

    def __init__(self, folder: Path, odd: str, behave: Callable[["Handler"], None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.odd, self.behave, self.ended = folder, odd, behave, Event()
        self.sent_bytes = 0


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.server.odd in self.path:
            with suppress(OSError):
                self.server.behave(self)
            self.close_connection = True
            return
        path = self.server.folder / self.path.lstrip("/")
        content = path.read_bytes() if path.is_file() else b""
        self.send_response(200 if path.is_file() else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def send(self, content: bytes) -> None:
        self.wfile.write(content)
        self.server.sent_bytes += len(content)


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.ended.is_set():
        handler.send(b"a" * 65_536)


def trickling(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000000")
    handler.end_headers()
    _trickle(handler)


def trickling_head(handler: Handler) -> None:
    handler.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
    _trickle(handler)


def silent(handler: Handler) -> None:
    handler.server.ended.wait(60)


def _trickle(handler: Handler) -> None:
    while not handler.server.ended.wait(0.02):
        handler.send(b"a")


@contextmanager
def serving(folder: Path, odd: str, behave: Callable[[Handler], None]) -> Iterator[tuple[Server, str]]:
    server = Server(folder, odd, behave)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def require_refused(field: Field, source: HttpSource, failure: str) -> None:
    outcome = field.device.agent().update(source)
    assert outcome.refused is not None
    assert outcome.refused.failure == failure, outcome.refused
    assert not field.loaded.exists()
    assert outcome.running == "scale-2"


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("path", ["timestamp.json", "snapshot.json", "2.root.json", "files/", "targets/channels"])
def test_data_without_an_end_are_cut(field: Field, path: str) -> None:
    field.publish("scale-3", 3)
    with serving(field.folder, path, endless) as (server, url):
        require_refused(field, HttpSource(url, None), "tampered")
        assert server.sent_bytes < 32 << 20
    stored = sum(each.stat().st_size for each in field.device.folder.rglob("*") if each.is_file())
    assert stored < 1 << 20
    assert field.device.update().running == "scale-3"


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("behave", [trickling, trickling_head, silent])
@pytest.mark.parametrize("path", ["timestamp.json", "files/"])
def test_server_that_hardly_sends_is_given_up(field: Field, behave: Callable[[Handler], None], path: str) -> None:
    field.publish("scale-3", 3)
    with serving(field.folder, path, behave) as (_, url):
        require_refused(field, HttpSource(url, None, HASTY), "unreachable")
    assert field.device.update().running == "scale-3"


def test_pace_is_judged_by_whole_windows() -> None:
    now_s = 0.0
    meter = PaceMeter(Pace(window_s=60.0, least_bytes_per_s=256.0), lambda: now_s)
    for _ in range(3):
        meter.arrived(20_000)
        now_s += 59.0
        meter.arrived(1)
        now_s += 1.0
        meter.arrived(1)
    now_s += 30.0
    meter.arrived(10)
    now_s += 30.0
    with pytest.raises(TooSlow, match="11 bytes in 60 s"):
        meter.arrived(1)


def test_unreachable_server_is_refused(field: Field) -> None:
    with serving(field.folder, "nothing", silent) as (_, url):
        source = HttpSource(url, None)
    with pytest.raises(Refused, match="unreachable"):
        list(source.content("0" * 64, 0))
