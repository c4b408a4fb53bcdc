"""The commands, environments, users and health checks of docker-compose.yml work as plain processes.

SQLite replaces PostgreSQL and a unix socket replaces the network; test_secrets.py and test_broker_users.py test both
with the farm's configuration. Everything else is as in the file, with paths and ports of this machine.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.deploy.confined_redis import ConfinedRedis
from tests.deploy.source import DEPLOY, compose, interpolated
from tests.servers.redis_server import redis_program
from tunefarm.cli.command_line import main
from tunefarm_schemas.farm.lane import LaneState
from tunefarm_services.store import Store

SERVICES = compose()["services"]
MAX_START_S = 600.0
"""A process that dies is noticed at once; this only ends a hang."""
STOPPED = {0, -15, 130, 143}


class Host:
    """This machine as the host of a farm: maps paths and ports of the file to local ones."""

    def __init__(self, folder: Path, redis: ConfinedRedis) -> None:
        made = [sys.executable, DEPLOY / "make-certificates", "--folder", folder]
        subprocess.run(made, check=True, capture_output=True, timeout=60)
        self.folder = folder
        self.database = f"sqlite:///{folder}/tunefarm.db"
        self.blobs = folder / "blobs"
        self._redis = redis
        self._ports: dict[str, int] = {}
        self._running: list[subprocess.Popen[str]] = []
        # Containers run as their own user; so do these processes if that user can access this Python.
        self._user = runnable_as(int(SERVICES["api"]["user"].partition(":")[0]))
        self._give_away()

    def _give_away(self) -> None:
        """Let the user of the containers own all files."""
        for path in [self.folder, *self.folder.rglob("*")]:
            if self._user is not None:
                os.chown(path, self._user, self._user)

    def run_here(self, name: str) -> int:
        """Run the service's command with its environment in this process, which need not load its code."""
        with patch.dict(os.environ, self._environment(name), clear=True):
            status = main([self._here(name, word) for word in SERVICES[name]["command"]])
        self._give_away()
        return status

    def start(self, name: str) -> subprocess.Popen[str]:
        """Start the service's command with its environment, as its user."""
        command = [self._here(name, word) for word in SERVICES[name]["command"]]
        with (self.folder / f"{name}.log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tunefarm.cli.command_line", *command],
                env=self._environment(name),
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                **({} if self._user is None else {"user": self._user, "group": self._user, "extra_groups": []}),
            )
        self._running.append(process)
        return process

    def is_healthy(self, name: str) -> bool:
        """Whether the service's health check succeeds."""
        kind, program, *words = SERVICES[name]["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "probe")
        probe = [sys.executable, DEPLOY / "containers" / "probe.py", *(self._here(name, word) for word in words)]
        return subprocess.run(probe, capture_output=True, timeout=60).returncode == 0

    def is_listening(self, name: str) -> bool:
        """Whether something accepts connections at the service's port."""
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self._port(name, "8443"))) == 0

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def stop(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _environment(self, name: str) -> dict[str, str]:
        given = SERVICES[name].get("environment", {})
        secrets = {"TUNEFARM_POSTGRES_PASSWORD": "x", "TUNEFARM_WORKER_CPUS": "0"}
        secrets |= {f"TUNEFARM_BROKER_{user}_PASSWORD": text for user, text in self._redis.passwords.items()}
        values = {key: interpolated(str(value), secrets) for key, value in given.items() if value is not None}
        if "TUNEFARM_DATABASE_URL" in values:
            values["TUNEFARM_DATABASE_URL"] = self.database
        if "TUNEFARM_BROKER_URL" in values:
            account = values["TUNEFARM_BROKER_URL"].removeprefix("rediss://").partition("@")[0]
            values["TUNEFARM_BROKER_URL"] = f"unix://{account}@{self._redis.socket}?db=0"
        if "TUNEFARM_METRICS_LISTEN" in values:
            values["TUNEFARM_METRICS_LISTEN"] = f"127.0.0.1:{self._port(name, '9464')}"
        home = self.folder / f"home-{name}"
        home.mkdir(mode=0o700, exist_ok=True)
        if self._user is not None:
            os.chown(home, self._user, self._user)
        values |= {"TUNEFARM_HOME": str(home), "TUNEFARM_BLOB_URL": str(self.blobs)}
        # As in the image, no other variables of this machine are set.
        return values | {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(self.folder)}

    def _here(self, name: str, word: str) -> str:
        word = re.sub("8443|9464", lambda port: str(self._port(name, port[0])), word)
        return word.replace("/run/tunefarm/", f"{self.folder}/").replace("0.0.0.0", "127.0.0.1")

    def _port(self, name: str, port: str) -> int:
        if f"{name}:{port}" not in self._ports:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self._ports[f"{name}:{port}"] = int(probe.getsockname()[1])
        return self._ports[f"{name}:{port}"]


def runnable_as(user: int) -> int | None:
    """The user, if this process can become it and it can run this Python; otherwise None, to run as this user."""
    if os.geteuid() != 0:
        return None
    try:
        tried = subprocess.run([sys.executable, "-c", ""], user=user, group=user, extra_groups=[], timeout=60)
    except PermissionError:
        return None
    return user if tried.returncode == 0 else None


@pytest.fixture
def host() -> Iterator[Host]:
    program = redis_program()
    if program is None:
        pytest.skip("no redis-server on this machine")
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tunefarm-host-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        redis = ConfinedRedis(program, folder)
        stack.callback(redis.stop)
        # Only the user of the containers connects to this socket.
        redis.socket.chmod(0o777)
        found = Host(folder, redis)
        stack.callback(found.stop)
        yield found


def wait_until_healthy(host: Host, name: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + MAX_START_S
    while not host.is_healthy(name):
        assert process.poll() is None, host.log(name)
        assert time.monotonic() < deadline, host.log(name)
        time.sleep(0.5)


def test_api_serves_tls_on_migrated_database(host):
    assert host.run_here("migrate") == 0
    process = host.start("api")
    while not host.is_listening("api") and process.poll() is None:
        time.sleep(0.05)  # most probes before would be in vain
    wait_until_healthy(host, "api", process)
    process.terminate()
    assert process.wait(timeout=30) in STOPPED, host.log("api")


@pytest.mark.faults
def test_farm_starts_is_healthy_and_stops(host):
    assert host.start("migrate").wait(timeout=MAX_START_S) == 0, host.log("migrate")
    running = {name: host.start(name) for name in ("api", "tuner", "worker")}
    for name, process in running.items():
        wait_until_healthy(host, name, process)
    with contextlib.closing(Store.open(host.database, host.blobs, create=False)) as store:
        deadline = time.monotonic() + MAX_START_S
        while not [lane for lane in store.lanes.find() if lane.state is LaneState.READY]:
            assert time.monotonic() < deadline, host.log("worker") + host.log("tuner")
            time.sleep(0.5)
    for process in running.values():
        process.terminate()
    for name, process in running.items():
        grace_s = float(SERVICES[name]["stop_grace_period"].removesuffix("s"))
        assert process.wait(timeout=grace_s) in STOPPED, host.log(name)
        assert "Traceback" not in host.log(name)
    assert not host.is_healthy("api")
