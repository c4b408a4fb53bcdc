"""Attacks on HTTP framing: heads without end, ambiguous requests, idle connections."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import psutil
import pytest

from tests.api.test_over_http import Service
from tunefarm_schemas.token import Scope
from tunefarm_services.store import Store

MEBIBYTE = 1 << 20
PLACES = 40
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("attacked")
    Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs").close()
    running = Service(home, CONNECTIONS=str(PLACES), BODIES_PER_TENANT="1000")
    running.wait_until_ready()
    yield running
    running.close()


@pytest.fixture(scope="module")
def secret(attacked: Service) -> str:
    home = attacked.home
    store = Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs")
    _, text = store.tokens.create("alice", "token", tuple(Scope))
    store.close()
    return text


def connected(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=60)


def everything(connection: socket.socket) -> bytes:
    """All bytes that the service sends until it closes the connection."""
    pieces = []
    try:
        while piece := connection.recv(65536):
            pieces.append(piece)
    except ConnectionError:
        pass
    return b"".join(pieces)


def answers_to(service: Service, sent: bytes) -> bytes:
    with connected(service) as connection:
        connection.sendall(sent)
        return everything(connection)


def assert_refused(answer: bytes, status: int) -> dict:
    """Check that ``answer`` is a single problem, after which the connection was closed."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:400]
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert b"connection: close" in head.lower()
    assert b"application/problem+json" in head
    problem = json.loads(body)
    assert problem["status"] == status
    return problem


def is_healthy(service: Service) -> bool:
    return httpx.get(f"{service.url}/healthz", timeout=60, verify=False).status_code == 200


def sent_until_closed(service: Service, begin: bytes, endless: bytes, most_bytes: int = 32 * MEBIBYTE) -> int:
    """How many bytes of an endless request the service accepts."""
    sent = 0
    with connected(service) as connection:
        try:
            connection.sendall(begin)
            while sent < most_bytes:
                connection.sendall(endless)
                sent += len(endless)
                if sent % MEBIBYTE < len(endless):
                    assert is_healthy(service)
        except (ConnectionError, TimeoutError):
            pass
    return sent


@pytest.mark.parametrize(
    ("begin", "endless"),
    [
        (GET + b"X-Long: ", b"a" * 65536),
        (GET, b"X: y\r\n" * 8192),
        (b"GET /", b"a" * 65536),
        (b"G" * 1000, b"G" * 65536),
        (b"\r\n", b"\r\n" * 32768),
        (b"", b"\x00" * 65536),
    ],
    ids=["value", "fields", "target", "method", "blank lines", "zeros"],
)
def test_endless_request_head_is_cut_off(attacked, begin, endless):
    process = psutil.Process(attacked.process.pid)
    is_healthy(attacked)
    before = process.memory_info().rss
    assert sent_until_closed(attacked, begin, endless) < 16 * MEBIBYTE
    assert process.memory_info().rss - before < 16 * MEBIBYTE
    assert is_healthy(attacked)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (GET + b"X-Long: " + b"a" * 65536, 431),
        (GET + b"X: y\r\n" * 100 + b"\r\n", 431),
        (b"GET /healthz?" + b"a=b&" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"G" * 20_000, 414),
    ],
)
def test_oversized_request_head_is_rejected(attacked, sent, status):
    assert_refused(answers_to(attacked, sent), status)


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "head",
    [
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        POST + b"Transfer-Encoding: chunked, chunked\r\n",
        POST + b"Transfer-Encoding: identity\r\n",
        POST + b"Transfer-Encoding: xchunked\r\n",
        POST + b"Transfer-Encoding: gzip, chunked\r\n",
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        POST + b"Transfer-Encoding : chunked\r\n",
        POST + b"Transfer-Encoding:\r\n chunked\r\n",
        POST + b"X: y\r\n Transfer-Encoding: chunked\r\n",
        POST + b"Transfer-Encoding: \x0bchunked\r\n",
        b"POST /healthz HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 5\r\n",
        POST + b"Content-Length: 5, 5\r\n",
        POST + b"Content-Length: +5\r\n",
        POST + b"Content-Length: 0x5\r\n",
        POST + b"Content-Length: -1\r\n",
        POST + b"Content-Length: 99999999999999999999\r\n",
        POST + b"Content-Length: \r\n",
        GET + b"Host: y\r\n",
        b"GET /healthz HTTP/1.1\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x y\r\n",
        GET + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
        GET + b"Content-Type: a/b\r\nContent-Type: application/json\r\n",
        GET + b"Idempotency-Key: a\r\nIdempotency-Key: b\r\n",
        GET + b"X-Zero: a\x00b\r\n",
        GET + b"X-Escape: a\x1b[31mb\r\n",
        GET + b"X-Bare: a\rb\r\n",
        GET + b"X-Bare: a\nY: b\r\n",
        GET + b": no name\r\n",
        GET + b"no colon\r\n",
        b"GET  /healthz HTTP/1.1\r\nHost: x\r\n",
        b"GET /healthz HTTP/1.1 \r\nHost: x\r\n",
        b"GET /health\x80z HTTP/1.1\r\nHost: x\r\n",
        b"GET /healthz#part HTTP/1.1\r\nHost: x\r\n",
        b"GET healthz HTTP/1.1\r\nHost: x\r\n",
        b"GET * HTTP/1.1\r\nHost: x\r\n",
        b"GET /healthz\r\nHost: x\r\n",
    ],
)
@pytest.mark.parametrize("behind", [b"", b"0\r\n\r\n" + SMUGGLED], ids=["alone", "with a request behind it"])
def test_ambiguous_request_is_rejected_without_reading_on(attacked, head, behind):
    assert_refused(answers_to(attacked, head + b"\r\n" + behind), 400)


def test_bare_line_feeds_are_rejected(attacked):
    assert_refused(answers_to(attacked, b"GET /healthz HTTP/1.1\nHost: x\n\n"), 400)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n", 505),
        (b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        (b"BREW /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 501),
    ],
)
def test_unknown_protocol_is_rejected(attacked, sent, status):
    assert_refused(answers_to(attacked, sent), status)


def chunked(secret: str, *chunks: bytes) -> bytes:
    head = f"POST /v1/uploads HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n"
    return (head + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").encode() + b"".join(chunks)


BODY = b'{"size_bytes": 1}'
WHOLE = b"%x\r\n%s\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize(
    "chunks",
    [
        (b"1;" + b"x" * 300,),
        (b"5;\x00\r\n{}{}{}\r\n0\r\n\r\n",),
        (b"+5\r\n", BODY),
        (b"0x11\r\n", BODY),
        (b"123456789\r\n", BODY),
        (b"5\r\n" + BODY + b"\r\n0\r\n\r\n",),
        (b"1\n{\n0\n\n" + b" " * 300,),
        (b"1\r\n \r\n" * 5000,),
        (WHOLE, b"0\r\nno colon\r\n\r\n"),
        (WHOLE, b"0\r\nX: y\r\n folded\r\n\r\n"),
    ],
)
def test_invalid_chunked_body_is_rejected(attacked, secret, chunks):
    assert_refused(answers_to(attacked, chunked(secret, *chunks)), 400)


def test_endless_trailers_are_rejected(attacked, secret):
    assert_refused(answers_to(attacked, chunked(secret, WHOLE, b"0\r\n", b"X: y\r\n" * 2000)), 431)


def test_trailer_does_not_become_a_header(attacked, secret):
    trailers = b"0\r\nIdempotency-Key: from-the-trailer\r\nConnection: close\r\n\r\n"
    for _ in range(2):
        with connected(attacked) as connection:
            connection.sendall(chunked(secret, WHOLE, trailers))
            answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 201 ")
        assert b"idempotent-replayed" not in answer


def test_requests_are_equal_in_one_or_many_segments(attacked, secret):
    request = chunked(
        secret, b"3;name=value\r\n", BODY[:3], b"\r\n%x\r\n" % (len(BODY) - 3), BODY[3:], b"\r\n0\r\n\r\n"
    )
    last = GET + b"Connection: close\r\n\r\n"
    with connected(attacked) as connection:
        for byte in request + last:
            connection.sendall(bytes([byte]))
        slowly = everything(connection)
    at_once = answers_to(attacked, request + last)
    for answer in (slowly, at_once):
        assert answer.count(b"HTTP/1.1 201 ") == 1, answer
        assert answer.count(b"HTTP/1.1 200 ") == 1, answer


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.extended)])
def test_pipelined_requests_are_answered(attacked, count):
    answer = answers_to(attacked, (GET + b"\r\n") * (count - 1) + GET + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 ") == count


def test_unsupported_upgrade_is_ignored(attacked):
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"
    assert answers_to(attacked, GET + upgrade).startswith(b"HTTP/1.1 200 ")


def test_idle_connection_is_closed(attacked):
    with connected(attacked) as connection:
        connection.sendall(GET + b"\r\n")
        connection.recv(1)
        connection.sendall(b"GET /heal")
        assert everything(connection).count(b"TTP/1.1 ") == 1


def test_idle_connections_make_room_for_others(attacked, secret):
    with ExitStack() as open_ones, httpx.Client(timeout=60) as alice:
        alice.headers["Authorization"] = f"Bearer {secret}"
        idle = [open_ones.enter_context(connected(attacked)) for _ in range(PLACES * 3)]
        assert is_healthy(attacked)
        assert alice.get(f"{attacked.url}/v1/jobs").status_code == 200
        idle += [open_ones.enter_context(connected(attacked)) for _ in range(PLACES)]
        assert is_healthy(attacked)
        assert alice.get(f"{attacked.url}/v1/jobs").status_code == 200
        server = psutil.Process(attacked.process.pid)
        held = [each for each in server.net_connections("tcp") if each.status == psutil.CONN_ESTABLISHED]
        assert len(held) <= PLACES + 8


def test_health_is_answered_under_full_load(attacked, secret):
    fields = f"Authorization: Bearer {secret}\r\nContent-Type: application/json\r\nContent-Length: 9"
    head = f"POST /v1/uploads HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n"
    with ExitStack() as open_ones:
        for _ in range(PLACES + 4):
            open_ones.enter_context(connected(attacked)).sendall(head.encode())
        deadline = time.monotonic() + 4
        statuses: set[int] = set()
        while 503 not in statuses and time.monotonic() < deadline:
            statuses.add(httpx.get(f"{attacked.url}/v1/jobs", timeout=60, verify=False).status_code)
            assert is_healthy(attacked)
        assert 503 in statuses


@pytest.mark.faults
def test_clients_that_do_not_read_make_room(attacked, secret):
    with Service(attacked.home, CONNECTIONS=str(PLACES), PUBLIC_DOCS="true").running() as service, ExitStack() as more:
        alice = more.enter_context(httpx.Client(timeout=60, headers={"Authorization": f"Bearer {secret}"}))
        for _ in range(PLACES + 8):
            slow_reader = more.enter_context(socket.socket())
            slow_reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            slow_reader.connect(("127.0.0.1", service.port))
            # More than the kernel buffers for a connection, so that the process still has data to send.
            slow_reader.sendall(b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n" * 8)
            slow_reader.recv(1)
        assert is_healthy(service)
        assert alice.get(f"{service.url}/v1/jobs").status_code == 200
        server = psutil.Process(service.process.pid)
        held = [each for each in server.net_connections("tcp") if each.status == psutil.CONN_ESTABLISHED]
        assert len(held) <= PLACES + 8
