"""``tunefarm serve`` as a user starts it."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HANGING_S = 120.0


@dataclass
class RealService:
    """``tunefarm serve`` in a folder of its own. ``words`` are further arguments."""

    home: Path
    words: tuple[str, ...] = ()
    process: "subprocess.Popen[bytes] | None" = None
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self, *words: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "tunefarm", *words],
            env=self._environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout.strip()

    def start(self) -> None:
        words = [sys.executable, "-m", "tunefarm", "serve", "--port", str(self.port), *self.words]
        with (self.home / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                words, env=self._environment(), stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + HANGING_S
        while not (self.home / "api.json").exists():
            assert self.process.poll() is None, (self.home / "serve.log").read_text()
            assert time.monotonic() < deadline, "the service does not start"
            time.sleep(0.05)
        self.port = int(json.loads((self.home / "api.json").read_text())["url"].rsplit(":", 1)[1])

    def kill(self) -> None:
        """Kill the API, the tuner and what they started, as a power cut does."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        (self.home / "api.json").unlink(missing_ok=True)

    def _environment(self) -> dict[str, str]:
        return os.environ | {"TUNEFARM_HOME": str(self.home)}
