"""An HTTP server that sends scripted responses in order, and records the requests."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Prepared:
    """A response. ``cut`` closes the connection before the content is complete."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    cut: bool = False

    @property
    def content(self) -> bytes:
        return self.text.encode() if self.text is not None else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


class ScriptedServer:
    """Use it in a ``with`` statement."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._answers: list[Prepared] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                headers = {name.lower(): value for name, value in self.headers.items()}
                script.asked.append(Asked(self.command, self.path, headers, self.rfile.read(length)))
                answer = script._answers.pop(0) if len(script._answers) > 1 else script._answers[0]
                self.send_response(answer.status)
                extra = {"Content-Type": "application/json", **answer.headers}
                missing = 1 if answer.cut else 0
                for name, value in {**extra, "Content-Length": str(len(answer.content) + missing)}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.content)
                if answer.cut:
                    self.close_connection = True

            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):
                    return self._answer
                raise AttributeError(name)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answers(self, *prepared: Prepared) -> None:
        """Send these responses in order, and then repeat the last one."""
        self._answers = list(prepared)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
