"""The pages in a real browser, over a service that tunes."""

import hashlib
import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers.real_service import HANGING_S, RealService

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

RECORD_TABS = ("diff", "python", "scheduled", "lowered", "assembly", "json", "artifact")


def _job(page: "Page", service: RealService) -> str:
    page.goto(f"{service.url}/dashboard/jobs?state=finished")
    page.click("tbody tr:last-child a")
    page.wait_for_selector("#by-trial canvas")
    return page.url


def _violations(page: "Page") -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]


def test_every_page_is_accessible_and_fits(page: "Page", service: RealService) -> None:
    job = _job(page, service)
    addresses = [f"{service.url}/dashboard{path}" for path in ("/", "/jobs", "/records", "/devices")]
    page.goto(addresses[2])
    record = f"{service.url}{page.get_attribute('tbody a', 'href')}"
    addresses += [job, record, *(f"{record}?show={tab}" for tab in RECORD_TABS)]
    page.goto(job)
    for link in ("All trials", "Space and model"):
        addresses.append(f"{service.url}{page.get_attribute(f'text={link}', 'href')}")
    for address in addresses:
        page.goto(address)
        assert _violations(page) == [], address
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            f"{address} is wider than the window"
        )


def test_a_running_job_is_shown_as_it_runs(page: "Page", service: RealService) -> None:
    words = (
        "submit",
        "builtin:matmul:48x48x48",
        "--trials",
        "4000",
        "--seed",
        str(len(page.context.pages)),
        "--fresh",
        "--json",
    )
    job_id = json.loads(service.command(*words))["job_id"]
    page.goto(f"{service.url}/dashboard/jobs/{job_id}")
    _wait(page, lambda: _trials(page) > 0)
    first = _trials(page)
    _wait(page, lambda: _trials(page) > first)
    page.click("#actions >> text=Pause")
    page.wait_for_selector("#actions >> text=Resume")
    page.click("#actions >> text=Cancel")
    page.wait_for_selector("#status >> text=canceled")
    page.wait_for_selector("#actions button", state="detached")


def test_a_page_goes_on_after_the_service_was_killed(chromium: object, service: RealService) -> None:
    page = chromium.new_page()  # type: ignore[attr-defined]
    page.set_default_timeout(120_000)
    page.goto(service.command("open", "--print"))
    job_id = json.loads(service.command("submit", "builtin:matmul:40x40x40", "--trials", "4000", "--fresh", "--json"))[
        "job_id"
    ]
    page.goto(f"{service.url}/dashboard/jobs/{job_id}")
    page.evaluate("window.isTheSamePage = true")
    _wait(page, lambda: _trials(page) > 0)
    before = _trials(page)
    service.kill()
    service.start()
    _wait(page, lambda: _trials(page) > before)
    assert page.evaluate("window.isTheSamePage")
    service.command("cancel", job_id)
    page.wait_for_selector("#status >> text=canceled")
    page.context.close()


def test_the_login_takes_a_token_and_log_out_ends_it(chromium: object, service: RealService) -> None:
    context = chromium.new_context()  # type: ignore[attr-defined]
    page = context.new_page()
    page.goto(f"{service.url}/dashboard/records")
    assert "/login?next=" in page.url
    assert _violations(page) == []
    page.fill("#token", "tfk_wrong")
    page.click("text=Log in >> nth=-1")
    assert "unknown" in page.inner_text("[role=alert]")
    page.fill("#token", (service.home / "token").read_text().strip())
    page.click("text=Log in >> nth=-1")
    page.wait_for_url("**/dashboard/records")
    page.click("text=Log out")
    page.wait_for_url("**/login")
    page.goto(f"{service.url}/dashboard/")
    assert "/login" in page.url
    context.close()


def test_a_record_shows_why_it_won_and_downloads_what_ships(page: "Page", service: RealService) -> None:
    page.goto(f"{service.url}/dashboard/records")
    page.click("tbody a")
    assert page.locator(".strip .mark").bounding_box() is not None
    assert page.locator(".strip circle").count() > 0
    page.click(".tabs >> text=Changes")
    assert page.url.endswith("?show=diff")
    assert _shows_changes(page)
    page.click(".tabs >> text=Assembly")
    assert "__tvm_ffi_main:" in page.inner_text("pre.code")
    shown = page.url
    page.click(".tabs >> text=Artifact")
    with page.expect_download() as download:
        page.click("text=Download the library")
    library = Path(download.value.path()).read_bytes()
    assert hashlib.sha256(library).hexdigest() in page.inner_text("main")
    page.goto(shown)
    assert page.inner_text("h2") == "Assembly"


def test_the_space_of_a_task_marks_the_trial_of_its_address(page: "Page", service: RealService) -> None:
    _job(page, service)
    page.click("text=Space and model")
    lines = page.locator("svg path.trial").count()
    assert lines > 0
    page.click("text=As a table >> nth=0")
    page.click("section[aria-labelledby=fastest] tbody a >> nth=0")
    assert page.locator("svg path.chosen").count() == 1
    assert page.locator("svg path.trial").count() == lines
    assert "trial=" in page.url
    assert page.locator("tr.chosen-row").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_pages_read_without_scripts(chromium: object, service: RealService) -> None:
    context = chromium.new_context(java_script_enabled=False)  # type: ignore[attr-defined]
    page = context.new_page()
    page.goto(service.command("open", "--print"))
    page.click("tbody a")
    assert re.search(r"\d+ of \d+", page.inner_text("#status"))
    assert "matmul" in page.inner_text("h1")
    page.click("text=Space and model")
    assert "Share of the variance" in page.inner_text("main")
    page.goto(f"{service.url}/dashboard/records")
    page.click("tbody a")
    page.click(".tabs >> text=Changes")
    assert _shows_changes(page)
    context.close()


def test_scripts_weigh_less_than_200_kilobytes_compressed() -> None:
    folder = Path(__file__).parents[2] / "services/tunefarm_services/dashboard/static"
    sizes = [
        len(subprocess.run(["gzip", "-9", "-c", path], capture_output=True, check=True).stdout)
        for path in folder.glob("*.js")
    ]
    assert sum(sizes) < 200_000


def _shows_changes(page: "Page") -> bool:
    """Whether there is a diff, or the sentence for a record whose schedule is the original function."""
    text = page.inner_text("main")
    return "+++ scheduled" in text or "The schedule changes nothing" in text


def _trials(page: "Page") -> int:
    found = re.search(r"(\d+) of \d+", page.inner_text("#status"))
    return int(found[1]) if found is not None else 0


def _wait(page: "Page", condition: Callable[[], bool]) -> None:
    """Wait in Python: the pages' policy keeps the browser from evaluating conditions given as text."""
    deadline = time.monotonic() + HANGING_S
    while not condition():
        assert time.monotonic() < deadline, page.inner_text("main")
        page.wait_for_timeout(100)
