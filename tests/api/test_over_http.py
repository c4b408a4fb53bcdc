"""The API as a real process on loopback: streams, restarts, slow and excessive callers, memory."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import httpx
import psutil
import pytest

from tests.api.stored import furnished
from tests.servers.processes import assert_gone
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_services.store import Store


class Service:
    """An API process, and its successor after a restart, on one listening socket."""

    def __init__(self, home: Path, **changes: str) -> None:
        """``changes`` are settings, named as environment variables without the prefix."""
        self.home = home
        self._environment = {**os.environ, **{f"TUNEFARM_{name}": value for name, value in changes.items()}}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        descriptor = self._listener.fileno()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.api.service", str(self.home), str(descriptor)],
            pass_fds=(descriptor,),
            env=self._environment,
        )

    def wait_until_ready(self) -> float:
        began = time.monotonic()
        while time.monotonic() - began < 60:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=90, verify=False).status_code == 200:
                    return time.monotonic() - began
            except httpx.HTTPError:
                time.sleep(0.05)
        raise TimeoutError

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Wait until the process is ready, and end it afterwards."""
        try:
            self.wait_until_ready()
            yield self
        finally:
            self.close()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
        self._listener.close()


@pytest.fixture(scope="module")
def service_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def service_store(service_home: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{service_home}/tunefarm.db", service_home / "blobs")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def service(service_home: Path, service_store: Store) -> Iterator[Service]:
    running = Service(service_home)
    running.wait_until_ready()
    yield running
    running.close()


@pytest.fixture
def caller(service: Service, service_store: Store, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    tenant = request.node.name[:60]
    _, text = service_store.tokens.create(tenant, "token", tuple(Scope))
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {text}"}, timeout=90) as client:
        client.headers["X-Tenant"] = tenant
        yield client


def read_events(client: httpx.Client, job_id: str, after: int = 0, most: int | None = None) -> list[dict]:
    headers = {"Last-Event-ID": str(after)} if after else {}
    found: list[dict] = []
    with client.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers, timeout=90) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            if line.startswith("data:"):
                found.append(json.loads(line.removeprefix("data:")))
                if most is not None and len(found) == most:
                    break
    return found


def test_event_stream_is_ordered_and_ends_with_the_job(caller, service_store):
    of_tenant = furnished(service_store, caller.headers["X-Tenant"])
    lease = of_tenant.lease

    def work() -> None:
        for number in range(20):
            service_store.events.append(lease, "progress", {"trials": number})
            time.sleep(0.02)
        service_store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.SUCCEEDED)
        time.sleep(0.3)
        service_store.events.append(lease, "summary", {"outcome": "succeeded"})

    worker = threading.Thread(target=work)
    worker.start()
    events = read_events(caller, of_tenant.job_id)
    worker.join()
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert [event["kind"] for event in events][-2:] == ["state", "summary"]
    assert sum(event["kind"] == "progress" for event in events) == 20
    later = read_events(caller, of_tenant.job_id, after=len(events) - 1)
    assert [event["kind"] for event in later] == ["summary"]


@pytest.mark.faults
def test_event_stream_continues_after_api_was_killed(caller, service, service_store):
    of_tenant = furnished(service_store, caller.headers["X-Tenant"])
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.02):
            service_store.events.append(of_tenant.lease, "progress", {})

    worker = threading.Thread(target=work)
    worker.start()
    seen = read_events(caller, of_tenant.job_id, most=5)
    service.kill()
    service.start()
    took_s = service.wait_until_ready()
    seen += read_events(caller, of_tenant.job_id, after=seen[-1]["sequence"], most=20)
    stop.set()
    worker.join()
    assert [event["sequence"] for event in seen] == list(range(1, len(seen) + 1))
    assert len(seen) == 25
    print(f"ready again after {took_s:.2f} s")


def test_api_process_is_small_and_loads_no_tvm(service):
    process = psutil.Process(service.process.pid)
    resident_bytes = process.memory_info().rss
    print(f"{resident_bytes / 1e6:.0f} MB resident")
    assert resident_bytes < 150e6
    loaded = {Path(mapping.path).name for mapping in process.memory_maps()}
    assert not any("tvm" in name or "xgboost" in name or "numpy" in name for name in loaded)


def test_oversized_body_is_rejected_early(caller, service):
    sent = 0
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
        authorization = caller.headers["Authorization"]
        head = (
            "POST /v1/uploads HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            f"Content-Type: application/json\r\nAuthorization: {authorization}\r\n\r\n"
        )
        connection.sendall(head.encode())
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        try:
            while sent < 1 << 30:
                connection.sendall(piece)
                sent += 0x10000
        except OSError:
            pass
        answer = b""
        if sent < 1 << 30:
            with suppress(ConnectionError):  # a reset may arrive before the answer
                answer = connection.recv(4096)
    assert sent < 64 << 20
    assert answer == b"" or b"413" in answer
    assert caller.get("/v1/jobs").status_code == 200


def test_declared_gigabyte_is_rejected_before_sending(caller, service):
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
        authorization = caller.headers["Authorization"]
        head = (
            f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 30}\r\n"
            f"Content-Type: application/json\r\nAuthorization: {authorization}\r\n\r\n"
        )
        connection.sendall(head.encode())
        assert b" 413 " in connection.recv(4096)


@pytest.mark.faults
def test_slow_sender_is_disconnected(caller, service):
    authorization = caller.headers["Authorization"]
    fields = f"Content-Type: application/json\r\nContent-Length: 100\r\nAuthorization: {authorization}"
    body = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n{{"
    for text, expected in ((body, b" 408 "), ("GET /v1/jobs HTTP/1.1\r\nHos", b"")):
        # No time limit of its own: only the service ends the wait.
        with socket.create_connection(("127.0.0.1", service.port)) as connection:
            connection.sendall(text.encode())
            assert expected in connection.recv(4096)


@pytest.mark.faults
def test_terminated_api_leaves_no_child(service_home, service_store):
    running = Service(service_home)
    running.wait_until_ready()
    children = psutil.Process(running.process.pid).children(recursive=True)
    assert children, "the intake's process"
    running.close()
    assert running.process.returncode != -signal.SIGKILL, "it did not end by itself"
    assert_gone(children, "the API")


def test_event_stream_ends_when_its_token_is_revoked(caller, service_store):
    (token,) = service_store.tokens.of_tenant(caller.headers["X-Tenant"])
    of_tenant = furnished(service_store, caller.headers["X-Tenant"])
    kinds = []
    with caller.stream("GET", f"/v1/jobs/{of_tenant.job_id}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("event:"):
                kinds.append(line.removeprefix("event:").strip())
                service_store.tokens.revoke(token.tenant, token.token_id)
    assert kinds
    assert "summary" not in kinds, "the job goes on"
    assert caller.get("/v1/jobs").status_code == 401
