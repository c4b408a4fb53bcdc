"""A real service with finished jobs, and a Chromium that looks at it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HANGING_S = 120.0


@dataclass
class RealService:
    """``tunefarm serve`` in a folder of its own."""

    home: Path
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
        words = [sys.executable, "-m", "tunefarm", "serve", "--port", str(self.port)]
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


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealService]:
    serving = RealService(tmp_path_factory.mktemp("pages"))
    serving.start()
    serving.command("submit", "builtin:matmul:32x32x32", "--trials", "8", "--label", "model=resnet", "--wait")
    yield serving
    serving.kill()


@pytest.fixture(scope="session")
def chromium() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    assert path is not None, "install Chromium: make test-browser does, as root on Debian"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(SWITCHES))
        yield browser
        browser.close()


@pytest.fixture(params=["wide and light", "narrow and dark"])
def page(request: pytest.FixtureRequest, chromium: "Browser", service: RealService) -> "Iterator[Page]":
    """A page of a logged-in browser. Any error on its console is a failure."""
    is_wide = request.param == "wide and light"
    context = chromium.new_context(
        viewport={"width": 1280 if is_wide else 390, "height": 900}, color_scheme="light" if is_wide else "dark"
    )
    opened = context.new_page()
    problems: list[str] = []
    opened.on(
        "console", lambda message: problems.append(message.text) if message.type in {"error", "warning"} else None
    )
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.set_default_timeout(HANGING_S * 1000)
    opened.goto(service.command("open", "--print"))
    opened.problems = problems  # type: ignore[attr-defined]
    yield opened
    context.close()
    assert problems == []
