"""The page of a job beside that of a study of the same size in Optuna's dashboard."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from benchmarks.dashboard.chromium import chromium, first_paint_s, heap_bytes, opened, renderer_bytes, script_bytes
from benchmarks.dashboard.figures import Beside

REQUIREMENTS: Final = ("optuna>=4", "optuna-dashboard>=0.20")
_START_WITHIN_S: Final = 600.0
_REST_MS: Final = 3_000.0
"""What a page still draws after its last request is part of its memory."""
_STUDY: Final = Path(__file__).with_name("optuna_study.py")


def beside(name: str, trials: int, address: str, cookie: dict[str, str] | None, rounds: int) -> Beside:
    """Take the figures of one page in a browser of its own."""
    with chromium() as browser:
        paints = []
        for _ in range(rounds):
            with opened(browser, cookie) as page:
                paints.append(first_paint_s(page, address))
        with opened(browser, cookie) as page:
            began_s = time.monotonic()
            scripts = script_bytes(page, address)
            settled_s = time.monotonic() - began_s
            page.wait_for_timeout(_REST_MS)
            return Beside(
                name=name,
                trials=trials,
                first_paints_s=tuple(paints),
                settled_s=settled_s,
                script_bytes=scripts,
                heap_bytes=heap_bytes(page),
                renderer_bytes=renderer_bytes(browser),
            )


@contextmanager
def optuna_dashboard(folder: Path, trials: int) -> Iterator[str]:
    """The address of a study in Optuna's dashboard, which is installed into an environment below ``folder``."""
    python = folder / "optuna" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "optuna"], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
        subprocess.run(install, check=True)
    port = _free_port()
    with (folder / "optuna.log").open("wb") as log:
        serving = subprocess.Popen(
            [python, _STUDY, folder / "study.db", str(trials), str(port)], stdout=log, stderr=log
        )
    try:
        _wait(serving, f"http://127.0.0.1:{port}/api/studies", folder / "optuna.log")
        yield f"http://127.0.0.1:{port}/dashboard/studies/1"
    finally:
        serving.kill()
        serving.wait()


def _wait(serving: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline_s = time.monotonic() + _START_WITHIN_S
    while True:
        try:
            if httpx.get(url, timeout=60.0).is_success:
                return
        except httpx.TransportError:
            pass
        if serving.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(log.read_text(encoding="utf-8")[-3000:])
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
