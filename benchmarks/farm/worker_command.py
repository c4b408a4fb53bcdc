"""``tunefarm worker start`` as a separate process, as a user starts it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_END_WITHIN_S: Final = 20.0


@contextmanager
def started_worker(home: Path, broker_url: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a worker of this host's processor until the block ends. Its output is in ``worker.log`` under ``home``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEFARM_")}
    own = {"TUNEFARM_HOME": str(home), "TUNEFARM_BROKER_URL": broker_url, "TUNEFARM_LOG_LEVEL": "warning"}
    words = [sys.executable, "-m", "tunefarm.cli.command_line", "worker", "start", "--allow-missing-confinement"]
    with (home / "worker.log").open("wb") as log:
        process = subprocess.Popen(words, env={**kept, **own}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
