import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from tests.acceptance.command import HANG_S
from tests.servers.processes import environment_without_settings
from tunefarm_sandbox.confinement.linux import PR_SET_PDEATHSIG, prctl

READY_S = 300.0
ENDED = {"finished"}
Seen = TypeVar("Seen")


@cache
def module_json(extent: int) -> str:
    """A square matrix product as TVM JSON."""
    import tvm
    from tvm import te
    from tvm.s_tir.meta_schedule.testing.te_workload import batch_matmul_nkkm

    function = te.create_prim_func(batch_matmul_nkkm(1, extent, extent, extent))
    return tvm.ir.save_json(tvm.IRModule({"main": function}))


def die_with_the_tests() -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Service:
    """``tunefarm serve`` in a subprocess, and a client of it."""

    home: Path
    environment: Mapping[str, str]
    words: tuple[str, ...] = ("serve", "--port", "0")
    python: str | Path = sys.executable
    folder: Path | None = None
    process: "subprocess.Popen[bytes] | None" = None
    began_s: float = 0.0
    ready_s: float = 0.0
    logs: list[Path] = field(default_factory=list)

    def start(self) -> None:
        self.began_s = time.monotonic()
        (self.home / "api.json").unlink(missing_ok=True)
        self.logs.append(self.home.parent / f"serve-{len(self.logs)}.log")
        with self.logs[-1].open("wb") as log:
            self.process = subprocess.Popen(
                [self.python, "-m", "tunefarm.cli.command_line", *self.words],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_the_tests,
            )
        while not self._answers():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() - self.began_s < READY_S, self.said()
            time.sleep(0.05)
        self.ready_s = time.monotonic() - self.began_s

    def end(self, number: int = signal.SIGINT) -> float:
        """Send a signal, and return the seconds until the process ended."""
        assert self.process is not None
        began_s = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(60)
        return time.monotonic() - began_s

    def said(self) -> str:
        return self.logs[-1].read_text()[-4000:]

    def client(self) -> httpx.Client:
        url, token = self.address()
        headers = {"Authorization": f"Bearer {token}"}
        # Without TLS, because loading certificate authorities takes 20 ms.
        return httpx.Client(base_url=url, headers=headers, timeout=90.0, verify=False)

    def address(self) -> tuple[str, str]:
        """The URL, and the token from the token file."""
        url = json.loads((self.home / "api.json").read_text())["url"]
        return url, (self.home / "token").read_text().strip()

    def post(self, path: str, body: object = None) -> dict:
        with self.client() as client:
            answer = client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, path: str, **query: object) -> dict:
        with self.client() as client:
            answer = client.get(path, params=query)
        assert answer.is_success, answer.text
        return answer.json()

    def submit(self, module: str, trials: int, **changes: object) -> str:
        return self.post("/v1/jobs", {"module": module, "effort": {"trials": trials}, **changes})["job_id"]

    def job(self, job_id: str) -> dict:
        return self.get(f"/v1/jobs/{job_id}")

    def trials(self, job_id: str) -> list[dict]:
        return self.get(f"/v1/jobs/{job_id}/trials", page_size=500)["items"]

    def wait(self, condition: Callable[[], object], within_s: float = HANG_S) -> None:
        self.wait_while_changing(lambda: bool(condition()), bool, within_s)

    def wait_while_changing(
        self, state: Callable[[], Seen], ended: Callable[[Seen], bool], within_s: float = HANG_S
    ) -> None:
        """Wait until ``state`` has ``ended``; fail if it does not change for ``within_s``."""
        seen, deadline_s = state(), time.monotonic() + within_s
        while not ended(seen):
            assert time.monotonic() < deadline_s, self.said()
            time.sleep(0.05)
            before, seen = seen, state()
            if seen != before:
                deadline_s = time.monotonic() + within_s

    def finish(self, *job_ids: str) -> list[dict]:
        for job_id in job_ids:
            self.wait(lambda job_id=job_id: self.job(job_id)["state"] in ENDED)
        return [self.job(job_id) for job_id in job_ids]

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return client.get("/readyz").is_success
        except (OSError, ValueError, httpx.HTTPError):
            return False


def environment_of(home: Path, **more: str) -> dict[str, str]:
    kept = environment_without_settings()
    return {**kept, "TUNEFARM_HOME": str(home), "PYTHONWARNINGS": "default", **more}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    home = tmp_path / "home"
    home.mkdir()
    found = Service(home, environment_of(home))
    yield found
    if found.process is not None and found.process.poll() is None:
        found.process.kill()
        found.process.wait()
