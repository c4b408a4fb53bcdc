"""``tunefarm serve`` as a separate process, as a user starts it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import httpx
import psutil

READY_WITHIN_S: Final = 60.0
_END_WITHIN_S: Final = 20.0


class ServiceProcess:
    """One service with one TUNEFARM_HOME, which can be restarted.

    It stays in the caller's session and process group, so that a signal to the group ends it too.

    Attributes:
        ready_s: seconds from its start until it was ready.
    """

    def __init__(self, home: Path, words: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> None:
        """``words`` follow ``tunefarm serve --port 0``; a restart uses the previous port. Nothing is started yet."""
        self._home = home
        self._words = tuple(words)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEFARM_")}
        self._environment = {**kept, "TUNEFARM_HOME": str(home), **(environment or {})}
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.ready_s = 0.0

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def token(self) -> str:
        """The token from the token file."""
        return (self._home / "token").read_text(encoding="utf-8").strip()

    @property
    def process(self) -> psutil.Process:
        """The started process."""
        assert self._process is not None
        return psutil.Process(self._process.pid)

    @property
    def api_processes(self) -> list[psutil.Process]:
        """The processes that serve requests: its forks of the same name, or else itself."""
        own = self.process
        return [child for child in own.children() if child.cmdline() == own.cmdline()] or [own]

    @property
    def log_path(self) -> Path:
        """The log of all starts."""
        return self._home / "service.log"

    def client(self) -> httpx.Client:
        """A client with the local token."""
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=30.0)

    def start(self) -> None:
        """Start it and wait until it is ready. Raises RuntimeError with its output if it exits, TimeoutError."""
        began_s = time.monotonic()
        (self._home / "api.json").unlink(missing_ok=True)
        command = [sys.executable, "-m", "tunefarm.cli.command_line", "serve", "--port", str(self._port), *self._words]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        while not self._is_ready():
            if self._process.poll() is not None:
                raise RuntimeError(self.log_path.read_text(encoding="utf-8")[-3000:])
            if time.monotonic() - began_s > READY_WITHIN_S:
                raise TimeoutError(f"not ready within {READY_WITHIN_S:.0f} s")
            time.sleep(0.02)
        self.ready_s = time.monotonic() - began_s

    def kill(self) -> None:
        """Kill the service abruptly, as a power failure would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(_END_WITHIN_S)

    def stop(self) -> None:
        """Stop it with SIGTERM, and kill it after a timeout. No effect if it has exited."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def _is_ready(self) -> bool:
        try:
            self._port = int(
                json.loads((self._home / "api.json").read_text(encoding="utf-8"))["url"].rpartition(":")[2]
            )
            return httpx.get(f"{self.url}/readyz", timeout=5.0).is_success
        except (OSError, ValueError, httpx.HTTPError):
            return False
