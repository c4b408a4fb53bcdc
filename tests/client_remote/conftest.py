"""A service in a subprocess, shared by all tests of a session."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.client_remote.scripted_server import ScriptedServer
from tests.servers.command_server import Ended, run_command
from tests.servers.processes import environment_without_settings
from tests.servers.tuned_home import tuned_home
from tunefarm.startup import fork_servers
from tunefarm.startup.fork_servers import start_intake_fork_server
from tunefarm_sandbox.fork_server.fork_server import ForkServer

ROOT = Path(__file__).parents[2]
START_S = 300.0
COMMAND = (sys.executable, "-m", "tunefarm.cli.command_line")
BRIEF_TUNER = """
import sys
import tests.servers.brief_timing
from tunefarm.cli.command_line import main
sys.exit(main(["tuner"]))
"""


@dataclass(frozen=True)
class Service:
    """``tunefarm serve`` and ``tunefarm tuner`` with their own TUNEFARM_HOME."""

    url: str
    home: Path

    @property
    def token(self) -> str:
        return (self.home / "token").read_text().strip()

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a user on the same machine, who finds the service through TUNEFARM_HOME."""
        kept = environment_without_settings()
        return {**kept, "TUNEFARM_HOME": str(self.home)}

    def command(self, *words: str, folder: Path | None = None, timeout_s: float = 120.0) -> Ended:
        return tunefarm(*words, environment=self.environment, folder=folder, timeout_s=timeout_s)


def tunefarm(
    *words: str, environment: Mapping[str, str], folder: Path | None = None, timeout_s: float = 120.0
) -> Ended:
    folder = folder or ROOT
    return run_command(*words, environment=environment, folder=folder, timeout_s=timeout_s, warnings_are_errors=True)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service with a tuner that measures on this host, and with the records of an earlier job."""
    home = tuned_home(tmp_path_factory).copied_to(tmp_path_factory.mktemp("service") / "home")
    log_path = home.parent / "log"
    with (
        _started((*COMMAND, "serve", "--port", "0", "--no-tuner", "--processes", "1"), home, log_path) as process,
        _started((sys.executable, "-c", BRIEF_TUNER), home, home.parent / "tuner-log"),
    ):
        yield Service(_url(process, home, log_path), home)


@contextmanager
def _started(command: Sequence[str], home: Path, log_path: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """A process that runs inside the block, and is interrupted at its end."""
    with log_path.open("w") as log:
        process = subprocess.Popen(
            command,
            env={**environment_without_settings(), "TUNEFARM_HOME": str(home)},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _url(process: "subprocess.Popen[bytes]", home: Path, log_path: Path) -> str:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s:
        assert process.poll() is None, log_path.read_text()
        if (home / "api.json").exists():
            url = str(json.loads((home / "api.json").read_text())["url"])
            try:
                if httpx.get(f"{url}/readyz", verify=False).status_code == 200:
                    return url
            except httpx.TransportError:
                pass
        time.sleep(0.1)
    raise AssertionError(f"the service did not start: {log_path.read_text()}")


@pytest.fixture(scope="session")
def intake_fork_server() -> Iterator[ForkServer]:
    """Clients that end leave it open."""
    with start_intake_fork_server() as started, pytest.MonkeyPatch.context() as patch:
        patch.setattr(started, "close", lambda: None)
        yield started


@pytest.fixture(autouse=True)
def clients_share_a_fork_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients in this process fork from one server. Starting one takes a second."""
    started = partial(request.getfixturevalue, "intake_fork_server")
    monkeypatch.setattr(fork_servers, "start_intake_fork_server", started)


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    """A server on loopback with scripted responses."""
    with ScriptedServer() as server:
        yield server
