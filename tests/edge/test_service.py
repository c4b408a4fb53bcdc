"""A device enrols with a service, polls it, installs over HTTP and reports."""

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.edge.bundles import bundle, scaled
from tests.edge.conftest import Device
from tests.edge.repositories import Repository
from tunefarm_edge.command_line import main
from tunefarm_edge.service.device_config import read_config, read_token
from tunefarm_edge.service.serving import FIRST_WAIT_S, MAX_WAIT_S, Backoff
from tunefarm_edge.trust.http_source import HttpSource
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.device import EdgeAdvice, EdgePoll, Enrolment, EnrolmentRequest
from tunefarm_schemas.edge.report import EdgeReports

TOKEN = "secret-of-the-device"


class FleetServer(ThreadingHTTPServer):
    """Serves a repository's folder and the three requests of devices, whose bodies it reads by our types.

    ``cut`` breaks the connection of that many downloads of files after half of the content.
    """

    daemon_threads = True

    def __init__(self, repository: Repository) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repository, self.cut, self.revoked = repository, 0, False
        self.polls: list[EdgePoll] = []
        self.reports: list[EdgeReports] = []
        self.ranges: list[str] = []

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
        self.server.reports.append(EdgeReports.model_validate_json(body))
        return self.answer(204)


@pytest.fixture
def server(repository: Repository) -> Iterator[FleetServer]:
    server = FleetServer(repository)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def enrolled(tmp_path: Path, server: FleetServer, repository: Repository) -> Device:
    folder = tmp_path / "device"
    words = ["--root", str(folder), "enrol", "--url", server.url, "--code", "once"]
    assert main([*words, "--name", "camera", "--pinned-root", str(repository.root)]) == 0
    device = Device(folder, repository, read_config(Device(folder, repository, None).root()))
    assert read_token(device.root()) == TOKEN
    assert (folder / "token").stat().st_mode & 0o777 == 0o600
    return device


def serve_once(device: Device) -> int:
    return main(["--root", str(device.folder), "serve", "--once"])


def test_device_installs_over_http_and_reports(enrolled: Device, server: FleetServer, repository: Repository) -> None:
    repository.publish(5, repository.release("scale-2", bundle(2)))
    assert serve_once(enrolled) == 0
    assert enrolled.computed() == scaled(2)
    assert serve_once(enrolled) == 0
    assert [(each.running, each.sequence) for each in server.polls] == [(None, 0), ("scale-2", 5)]
    kinds = [report.body.kind for sent in server.reports for report in sent.reports]
    assert kinds[:2] == ["self_test", "install"]
    assert "latency" in kinds
    assert not enrolled.reports()


def test_broken_download_goes_on_where_it_stopped(
    enrolled: Device, server: FleetServer, repository: Repository, capfd
) -> None:
    repository.publish(5, repository.release("scale-2", bundle(2)))
    server.cut = 3
    for _ in range(3):
        assert serve_once(enrolled) == 0
        assert "unreachable" in capfd.readouterr().out
    serve_once(enrolled)
    assert enrolled.computed() == scaled(2)
    assert len(server.ranges) == 3
    assert all(re.fullmatch(r"bytes=[1-9]\d*-", each) for each in server.ranges)


def test_reports_wait_for_the_service(enrolled: Device, server: FleetServer, repository: Repository, capfd) -> None:
    repository.publish(5, repository.release("scale-2", bundle(2)))
    assert enrolled.update().running == "scale-2"
    server.revoked = True
    serve_once(enrolled)
    assert "Enrol the device again." in capfd.readouterr().out
    waiting = [each.report_id for each in enrolled.reports()]
    assert len(waiting) == 2
    server.revoked = False
    serve_once(enrolled)
    assert [each.report_id for each in server.reports[0].reports] == waiting


def test_used_code_is_refused(tmp_path: Path, server: FleetServer, repository: Repository, capsys) -> None:
    words = ["--root", str(tmp_path / "other"), "enrol", "--url", server.url, "--code", "used"]
    assert main([*words, "--pinned-root", str(repository.root)]) == 1
    assert "Enrol the device again." in capsys.readouterr().err


@pytest.mark.parametrize("url", ["http://farm.example.org/v1/edge", "ftp://127.0.0.1/", "http://127.0.0.1.example.org"])
def test_token_is_never_sent_without_tls(url: str) -> None:
    with pytest.raises(BadInput, match="https"):
        HttpSource(url, TOKEN)


def test_waits_grow_with_jitter() -> None:
    backoff = Backoff()
    waits = [backoff.next_s() for _ in range(20)]
    assert FIRST_WAIT_S / 2 <= waits[0] <= FIRST_WAIT_S
    assert all(MAX_WAIT_S / 2 <= wait <= MAX_WAIT_S for wait in waits[10:])
    assert len(set(waits)) == len(waits)
    backoff.reset()
    assert backoff.next_s() <= FIRST_WAIT_S
