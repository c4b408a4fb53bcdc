"""A real service with finished jobs, and a Chromium that looks at it."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.servers.real_service import HANGING_S, RealService

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
