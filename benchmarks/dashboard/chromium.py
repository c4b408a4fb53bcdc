"""Chromium as a stopwatch: first paint, interactions, memory."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psutil
from playwright.sync_api import Browser, BrowserContext, Error, Page, sync_playwright

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
_SWITCHES: Final = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_WAIT_S: Final = 120.0
_CLOCK: Final = """
addEventListener("click", () => sessionStorage.setItem("clicked", performance.timeOrigin + performance.now()), true);
window.framesMs = [];
for (const kind of ["mousemove", "keydown"])
  addEventListener(kind, () => {
    const began = performance.now();
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => window.framesMs.push(performance.now() - began);
      channel.port2.postMessage(0);
    });
  }, true);
"""
"""Notes when links are clicked, and how long a movement or a key takes until its frame was drawn."""
_PAINT: Final = "performance.getEntriesByName('first-contentful-paint').map((entry) => entry.startTime)[0] ?? null"


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of its own. Raises RuntimeError without Chromium."""
    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if path is None:
        raise RuntimeError("install Chromium: make bench-dashboard does, as root on Debian")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_SWITCHES))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, cookie: dict[str, str] | None) -> Iterator[Page]:
    """A page with an empty cache, and with a session if there is a cookie."""
    context: BrowserContext = browser.new_context(viewport={"width": 1280, "height": 900})
    if cookie is not None:
        context.add_cookies([{**cookie, "domain": "127.0.0.1", "path": "/dashboard"}])
    context.add_init_script(_CLOCK)
    page = context.new_page()
    page.set_default_timeout(_WAIT_S * 1000)
    try:
        yield page
    finally:
        context.close()


def first_paint_s(page: Page, address: str) -> float:
    """Seconds from the navigation to the first contentful paint."""
    page.goto(address)
    return float(until(page, lambda: page.evaluate(_PAINT))) / 1e3


def click_to_paint_s(page: Page, selector: str) -> float:
    """Seconds from a click on a link to the first contentful paint of the page that it leads to."""
    before = page.evaluate("performance.timeOrigin")
    page.click(selector)
    until(page, lambda: page.evaluate("performance.timeOrigin") != before)
    until(page, lambda: page.evaluate(_PAINT))
    script = f"performance.timeOrigin + ({_PAINT}) - Number(sessionStorage.getItem('clicked'))"
    return float(page.evaluate(script)) / 1e3


def frame_times_s(page: Page) -> list[float]:
    """Seconds that each movement of the mouse and each key since the last call took until its frame was drawn."""
    return [float(each) / 1e3 for each in page.evaluate("window.framesMs.splice(0)")]


def script_bytes(page: Page, address: str) -> int:
    """Bytes of scripts that a page transfers, as they are compressed."""
    sizes: list[int] = []
    page.on(
        "requestfinished",
        lambda request: sizes.append(request.sizes()["responseBodySize"] if request.resource_type == "script" else 0),
    )
    page.goto(address)
    page.wait_for_load_state("networkidle")
    return sum(sizes)


def heap_bytes(page: Page) -> int:
    """The heap of a page's scripts after a garbage collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return int(metrics["JSHeapUsedSize"])


def renderer_bytes(browser: Browser) -> int:
    """Memory that only the largest renderer process of the browser uses."""
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    sizes = [psutil.Process(each["id"]).memory_full_info().uss for each in processes if each["type"] == "renderer"]
    return int(max(sizes))


def until(page: Page, value: Callable[[], object]) -> float:
    """The first value that is not empty, as a number. Raises TimeoutError."""
    deadline_s = time.monotonic() + _WAIT_S
    while not (found := _unless_it_navigates(value)):
        if time.monotonic() > deadline_s:
            raise TimeoutError(page.url)
        page.wait_for_timeout(10)
    return float(str(found)) if not isinstance(found, bool) else 1.0


def _unless_it_navigates(value: Callable[[], object]) -> object:
    """The value, or None if the page is left while it is taken."""
    try:
        return value()
    except Error as error:
        if "context was destroyed" not in error.message:
            raise
        return None
