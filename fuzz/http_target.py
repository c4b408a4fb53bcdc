"""A running service on loopback: raw bytes, and requests made from its own OpenAPI document."""

import json
import os
import random
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
from fuzz.seeds import TARGET, seeds

START_S: Final = 120.0
ANSWER_S: Final = 5.0
READING_S: Final = 45.0
"""For requests whose body holds a module: the intake's own time-out, and a little."""
MAX_MEMORY_BYTES: Final = 3 << 30
EXPECTED: Final = frozenset({501, 503, 505})
"""Unknown methods, a service that is busy, another version of HTTP; any other answer from 500 on is a fault."""
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "get", "X", "CONNECT")


class HttpTarget:
    """``tunefarm serve`` in a home of its own."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tunefarm-fuzz-")
        home = Path(self._folder.name) / "home"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEFARM_")}
        limits = {"RATE_LIMIT": "100000/second", "REFUSED_RATE_LIMIT": "100000/second", "PUBLIC_DOCS": "true"}
        self._log = (Path(self._folder.name) / "log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tunefarm.command_line", "serve", "--port", "0", "--no-tuner"],
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
        module = json.loads(seeds()[2].module_json)
        self._body = json.dumps({"module": module, "target": json.loads(TARGET), "labels": {"a": "b"}, "name": "n"})

    def make(self, chance: random.Random) -> str:
        """The bytes of a request, each as a character. ``TOKEN`` stands for the token."""
        body = b""
        method, path = chance.choice(self._paths)
        if chance.random() < 0.1:
            method = chance.choice(METHODS)
        while "{" in path:
            before, _, rest = path.partition("{")
            path = before + quote(_text(chance), safe="") + rest.partition("}")[2]
        if chance.random() < 0.3:
            path += f"?{quote(_text(chance))}={quote(_text(chance))}&page_size={quote(_text(chance))}"
        headers = ["Authorization: Bearer TOKEN"] if chance.random() < 0.9 else [f"Authorization: {_line(chance)}"]
        if method in {"POST", "PUT", "PATCH"}:
            body = mutated_json(self._body, chance).encode(errors="surrogatepass")
            headers += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        if chance.random() < 0.3:
            headers.append(f"{chance.choice(('Range', 'Idempotency-Key', 'Upload-Offset', 'Expect'))}: {_line(chance)}")
        request = self._head(method, path, *headers) + body
        if chance.random() < 0.3:
            request = mutated_bytes(request, chance)
        return request.decode("latin-1")

    def check(self, case: str) -> str | None:
        """Send it; look at the answer and at the service's processes."""
        content = case.encode("latin-1").replace(b"TOKEN", self._token.encode())
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

    def _harm(self) -> str | None:
        if self._process.poll() is not None or self._processes - self._family():
            return "a process of the service died"
        if self._sent(self._head("GET", "/healthz"), ANSWER_S)[0] != 200:
            return "/healthz does not answer"
        used_bytes = max(map(_resident_bytes, self._processes))
        return f"a process uses {used_bytes >> 20} MiB" if used_bytes > MAX_MEMORY_BYTES else None

    def _family(self) -> set[int]:
        """The processes of the service that are to outlive each request: all but the intake's children."""
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
        """Status (0 for none), headers and body of the answer. ``ends`` closes our side: no more is waited for."""
        received = b""
        deadline_s = time.monotonic() + limit_s
        try:
            with socket.create_connection(self._address, timeout=limit_s) as connection:
                connection.sendall(content)
                if ends and b"Content-Length" not in content:
                    connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(1 << 16):
                    received += part
                    connection.settimeout(max(0.01, deadline_s - time.monotonic()))
                    if len(received) > 64 << 20:
                        break
        except OSError:
            if not received:
                return 0, b"", b""
        head, _, body = received.partition(b"\r\n\r\n")
        words = head.split(b" ", 2)
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0, head, body


def _resident_bytes(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _text(chance: random.Random) -> str:
    return str(chance.choice(SCALARS)).encode(errors="replace").decode()[:2000]


def _line(chance: random.Random) -> str:
    return _text(chance).replace("\n", "").replace("\r", "")[:2000]
