"""A running service on loopback: raw bytes, and requests generated from its OpenAPI document."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from fuzz.mutation import SCALARS, mutated_bytes, mutated_json
from fuzz.seeds import TARGET, database_texts, seeds

START_S: Final = 120.0
ANSWER_S: Final = 5.0
READING_S: Final = 45.0
"""Time limit of requests with a module: the intake's own, and some margin."""
MAX_MEMORY_BYTES: Final = 3 << 30
EXPECTED: Final = frozenset({501, 503, 505})
"""Unknown method, busy service, other version of HTTP; any other answer from 500 on is a fault."""
LENGTH: Final = re.compile(rb"content-length:\s*(\d{1,18})", re.IGNORECASE)
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "get", "X", "CONNECT")


class HttpTarget:
    """``tunefarm serve`` in a home folder of its own."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tunefarm-fuzz-")
        home = Path(self._folder.name) / "home"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEFARM_")}
        limits = {"RATE_LIMIT": "100000/second", "REFUSED_RATE_LIMIT": "100000/second", "PUBLIC_DOCS": "true"}
        self._log = (Path(self._folder.name) / "log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tunefarm.cli.command_line", "serve", "--port", "0", "--no-tuner"],
            env={**kept, "TUNEFARM_HOME": str(home), **{f"TUNEFARM_{name}": value for name, value in limits.items()}},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        deadline_s = time.monotonic() + START_S
        while not (home / "api.json").exists() or not (home / "token").exists():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"the service does not start; see {self._log.name}")
            time.sleep(0.1)
        address = urlsplit(json.loads((home / "api.json").read_text())["url"])
        self._address = (str(address.hostname), int(address.port or 80))
        self._token = (home / "token").read_text().strip()
        while self._sent(self._head("GET", "/readyz"), START_S)[0] != 200:
            time.sleep(0.2)
        self._paths = self._read_paths()
        self._processes = self._family()
        self._bodies = _bodies()
        self._words = {b"TOKEN": self._token.encode(), **self._known_ids()}

    def make(self, chance: random.Random) -> str:
        """Create the bytes of a request, each as a character. ``TOKEN`` and ``KNOWN`` words stand for the service's."""
        body = b""
        method, path = chance.choice(self._paths)
        if chance.random() < 0.1:
            method = chance.choice(METHODS)
        example = self._bodies.get(path, self._bodies["/v1/jobs"])
        while "{" in path:
            before, _, rest = path.partition("{")
            name, _, rest = rest.partition("}")
            is_known = f"KNOWN-{name}".encode() in self._words and chance.random() < 0.6
            path = before + (f"KNOWN-{name}" if is_known else quote(_text(chance), safe="")) + rest
        if chance.random() < 0.3:
            path += f"?{quote(_text(chance))}={quote(_text(chance))}&page_size={quote(_text(chance))}"
        headers = ["Authorization: Bearer TOKEN"] if chance.random() < 0.9 else [f"Authorization: {_line(chance)}"]
        if method in {"POST", "PUT", "PATCH"}:
            body = mutated_json(example, chance).encode(errors="surrogatepass")
            size_bytes = len(self._filled(body))
            headers += ["Content-Type: application/json", f"Content-Length: {size_bytes}"]
        if chance.random() < 0.3:
            headers.append(f"{chance.choice(('Range', 'Idempotency-Key', 'Upload-Offset', 'Expect'))}: {_line(chance)}")
        request = self._head(method, path, *headers) + body
        if chance.random() < 0.3:
            request = mutated_bytes(request, chance)
        return request.decode("latin-1")

    def check(self, case: str) -> str | None:
        """Send it; check the answer and the service's processes."""
        content = self._filled(case.encode("latin-1"))
        limit_s = READING_S if b'"module' in content else ANSWER_S
        began_s = time.monotonic()
        status, head, body = self._sent(content, limit_s + 1, ends=True)
        took_s = time.monotonic() - began_s
        if took_s > limit_s:
            return f"it took {took_s:.1f} s"
        if status >= 500 and status not in EXPECTED:
            return f"the answer is {status}: {body[:300]!r}"
        is_parsers_own = status == 400 and body == b"Invalid HTTP request received."
        if status >= 400 and b"application/problem+json" not in head.lower() and body and not is_parsers_own:
            return f"the answer {status} is no problem: {head[:300]!r}"
        return self._harm()

    def close(self) -> None:
        """End the service."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._log.close()
        self._folder.cleanup()

    def _filled(self, content: bytes) -> bytes:
        for word, given in self._words.items():
            content = content.replace(word, given)
        return content

    def _known_ids(self) -> dict[bytes, bytes]:
        """The objects of the service after a job and a record were created, by their names in paths."""
        found: dict[bytes, bytes] = {}
        for path, name in {"/v1/jobs": "job_id", "/v1/records": "record_id", "/v1/uploads": "upload_id"}.items():
            body = self._bodies[path].encode()
            headers = ("Authorization: Bearer " + self._token, "Content-Type: application/json")
            head = self._head("POST", path, *headers, f"Content-Length: {len(body)}")
            status, _, answer = self._sent(head + body, READING_S)
            if status not in {200, 201, 202}:
                raise RuntimeError(f"{path} answered {status}: {answer[:500]!r}")
            told = json.loads(answer)
            ids = {name: told[name], **told.get("key", {})}
            found |= {f"KNOWN-{each}".encode(): str(value).encode() for each, value in ids.items()}
        return found

    def _harm(self) -> str | None:
        if self._process.poll() is not None or self._processes - self._family():
            return "a process of the service died"
        if self._sent(self._head("GET", "/healthz"), ANSWER_S)[0] != 200:
            return "/healthz does not answer"
        used_bytes = max(map(_resident_bytes, self._processes))
        return f"a process uses {used_bytes >> 20} MiB" if used_bytes > MAX_MEMORY_BYTES else None

    def _family(self) -> set[int]:
        """The processes of the service that must survive each request: all but the intake's children."""
        from fuzz.confined_targets import children_of

        return {self._process.pid, *children_of(self._process.pid)}

    def _read_paths(self) -> list[tuple[str, str]]:
        _, _, body = self._sent(
            self._head("GET", "/openapi.json", "Authorization: Bearer " + self._token), ANSWER_S * 6
        )
        paths: dict[str, Any] = json.loads(body)["paths"]
        # An event stream has no end, and deleting the token would end the run.
        return sorted(
            (method.upper(), path)
            for path, methods in paths.items()
            for method in methods
            if not path.endswith("/events") and "token" not in path
        )

    def _head(self, method: str, path: str, *headers: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._address[0]}", "Connection: close", *headers]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    def _sent(self, content: bytes, limit_s: float, *, ends: bool = False) -> tuple[int, bytes, bytes]:
        """Status (0 for none), headers and body of the answer. With ``ends``, do not wait for the rest of a request."""
        received = b""
        deadline_s = time.monotonic() + limit_s
        try:
            with socket.create_connection(self._address, timeout=limit_s) as connection:
                connection.sendall(content)
                if ends and _is_cut_short(content):
                    connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(1 << 16):
                    received += part
                    connection.settimeout(max(0.01, deadline_s - time.monotonic()))
                    if len(received) > 64 << 20 or not _is_cut_short(received):
                        break
        except OSError:
            if not received:
                return 0, b"", b""
        head, _, body = received.partition(b"\r\n\r\n")
        words = head.split(b" ", 2)
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0, head, body


def _bodies() -> dict[str, str]:
    """By path, a body that the service accepts."""
    seed = seeds()[2]
    module, target, trace = json.loads(seed.module_json), json.loads(TARGET), json.loads(seed.traces[0])
    workloads, records = database_texts()[2]
    bodies = {
        "/v1/jobs": {"module": module, "target": target, "labels": {"a": "b"}, "name": "n", "effort": {"trials": 2}},
        "/v1/records": {"module": module, "target": target, "trace": trace, "latency_s": 1e-5},
        "/v1/records:best": {"workload_id": "KNOWN-workload_id", "target": target, "limit": 3},
        "/v1/records:import": {"workloads": workloads, "records": records},
        "/v1/records:export": {"record_ids": ["KNOWN-record_id"], "include_claimed": True},
        "/v1/records/{record_id}:retract": {"reason": "it is wrong"},
        "/v1/workloads": {"module": module, "name": "n"},
        "/v1/targets:validate": {"target": target},
        "/v1/uploads": {"size_bytes": 1000},
    }
    return {path: json.dumps(body) for path, body in bodies.items()}


def _is_cut_short(content: bytes) -> bool:
    """Whether more of a request or an answer may follow.

    A client that leaves after a whole request gets no answer to it; an answer may keep its connection open.
    """
    _, end, body = content.partition(b"\r\n\r\n")
    told = LENGTH.search(content)
    return not end or told is None or len(body) < int(told[1])


def _resident_bytes(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _text(chance: random.Random) -> str:
    return str(chance.choice(SCALARS)).encode(errors="replace").decode()[:2000]


def _line(chance: random.Random) -> str:
    return _text(chance).replace("\n", "").replace("\r", "")[:2000]
