"""A Redis server with the configuration and users of a deployed farm."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import redis

from tests.deploy.source import DEPLOY
from tunefarm_schemas.farm.broker import Broker

PREFIX = "tunefarm."


class ConfinedRedis:
    """A server with deploy/redis and a new user list, on a unix socket, or with TLS on a port of loopback."""

    def __init__(self, program: Path, folder: Path, tls_port: int | None = None) -> None:
        made = [sys.executable, DEPLOY / "make-secrets", "--folder", folder, "--env", folder / ".env"]
        subprocess.run(made, check=True, capture_output=True, timeout=60)
        lines = (folder / ".env").read_text(encoding="utf-8").splitlines()
        self.passwords = dict(line.removeprefix("TUNEFARM_BROKER_").split("_PASSWORD=") for line in lines[:3])
        self.socket = folder / "redis.sock"
        settings = (DEPLOY / "redis" / "redis.conf").read_text(encoding="utf-8")
        settings = settings.replace("include /etc/redis/tls.conf", self._transport(tls_port))
        settings = settings.replace("bind * -::*", "bind 127.0.0.1").replace("/etc/redis/server.", f"{folder}/redis.")
        settings = settings.replace("/etc/redis", str(folder)).replace("dir /data", f"dir {folder}")
        (folder / "redis.conf").write_text(settings, encoding="utf-8")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen([program, folder / "redis.conf"], cwd=folder, **quiet)
        deadline = time.monotonic() + 60
        while not (self._answers(tls_port) if tls_port else self.socket.exists()):
            assert self._process.poll() is None, "the configuration is refused"
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _transport(self, tls_port: int | None) -> str:
        if tls_port is None:
            return f"unixsocket {self.socket}"
        return (DEPLOY / "redis" / "tls.conf").read_text(encoding="utf-8").replace("6379", str(tls_port))

    @staticmethod
    def _answers(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def broker(self, user: str, prefix: str = PREFIX) -> Broker:
        password = self.passwords[user.upper()]
        return Broker.at(f"unix://{user}:{password}@{self.socket}?db=0", prefix)

    def client(self, user: str) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket), username=user, password=self.passwords[user.upper()])

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)
