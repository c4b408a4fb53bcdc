"""A service for tests: it serves a repository's folder, and answers enrolments, polls and reports."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.edge.repositories import Repository
from tunefarm_schemas.edge.device import EdgeAdvice, EdgePoll, Enrolment, EnrolmentRequest
from tunefarm_schemas.edge.report import EdgeReports

TOKEN = "secret-of-the-device"


class FleetServer(ThreadingHTTPServer):
    """Serves a repository's folder and the three requests of devices, whose bodies it reads by our types.

    ``cut`` breaks the connection of that many downloads of files after half of the content. Reports with ``unknown`` in
    them are rejected.
    """

    daemon_threads = True

    def __init__(self, repository: Repository) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repository, self.cut, self.revoked = repository, 0, False
        self.polls: list[EdgePoll] = []
        self.reports: list[EdgeReports] = []
        self.ranges: list[str] = []
        self.unknown = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/edge"


class Handler(BaseHTTPRequestHandler):
    server: FleetServer

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, content: bytes = b"", sent: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:sent])

    def do_GET(self) -> None:
        path = self.server.repository.folder / self.path.removeprefix("/v1/edge/")
        if self.headers["Authorization"] != f"Bearer {TOKEN}" or self.server.revoked:
            return self.answer(401)
        if not path.is_file():
            return self.answer(404)
        content = path.read_bytes()
        if path.parent.name == "files":
            given = self.headers["Range"]
            if given:
                self.server.ranges.append(given)
                content = content[int(given.removeprefix("bytes=").removesuffix("-")) :]
            if self.server.cut and len(content) > 1:
                self.server.cut -= 1
                self.close_connection = True
                return self.answer(206 if given else 200, content, len(content) // 2)
            return self.answer(206 if given else 200, content)
        return self.answer(200, content)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/enrolments"):
            asked = EnrolmentRequest.model_validate_json(body)
            if asked.code != "once":
                return self.answer(401)
            answer = Enrolment(edge_device_id="device-1", channel="stable", token=TOKEN)
            return self.answer(200, answer.model_dump_json().encode())
        if self.headers["Authorization"] != f"Bearer {TOKEN}" or self.server.revoked:
            return self.answer(401)
        if self.path.endswith("/polls"):
            self.server.polls.append(EdgePoll.model_validate_json(body))
            advice = EdgeAdvice(channel="stable", action="run_current", release=None, poll_after_s=60)
            newer = json.loads(advice.model_dump_json()) | {"unknown_to_older_agents": 1}
            return self.answer(200, json.dumps(newer).encode())
        if self.server.unknown and self.server.unknown in body:
            return self.answer(422)
        self.server.reports.append(EdgeReports.model_validate_json(body))
        return self.answer(204)
