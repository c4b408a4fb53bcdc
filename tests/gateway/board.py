"""A process that acts as a board: TVM's own RPC server on loopback."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.gateway import board_server
from tests.workers.workloads import TARGET
from tunefarm_workers.gateway.gateway_settings import GatewaySettings

KEY = "board"
_START_S = 300.0
_FIRST_PORT = 19190 + os.getpid() % 700
"""Differs between test runs: another run on this host must not take the port while the board is down."""
_BOUND = re.compile(r"bind to 127\.0\.0\.1:(\d+)")


class Board:
    """Started and killed by its process group; after a restart it listens on the same port."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "board.log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[Self]:
        board = cls(folder)
        try:
            board.start()
            yield board
        finally:
            board.kill()

    def start(self) -> None:
        first, last = (self.port, self.port + 1) if self.port else (_FIRST_PORT, 19990)
        command = self.command(["--host", "127.0.0.1", "--key", KEY, "--port", str(first), "--port-end", str(last)])
        self._log.write_bytes(b"")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self.variables()},
            )
        deadline_s = time.monotonic() + _START_S
        while (bound := _BOUND.search(self._log.read_text())) is None:
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline_s, "the board did not start"
            time.sleep(0.05)
        self.port = int(bound[1])

    def command(self, words: Sequence[str]) -> list[str]:
        """The server's command."""
        return [sys.executable, str(Path(board_server.__file__)), *words]

    def variables(self) -> dict[str, str]:
        """Additional variables of its environment."""
        return {"TMPDIR": str(self._folder), "TVM_NUM_THREADS": "2"}

    def kill(self) -> None:
        """End the server and its session at once, as a power cut does."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def gateway_settings_of(board: Board, **changed: object) -> GatewaySettings:
    chosen = {
        "port": board.port,
        "key": KEY,
        "target": TARGET,
        "board": "a test's board",
        "vendor": "maker",
        "build_lanes": 2,
        "first_build_s": 4.0,
        "quarantine_s": 1.0,  # what else runs on this host may look like drift
        **changed,
    }
    return GatewaySettings(**chosen)  # type: ignore[arg-type]
