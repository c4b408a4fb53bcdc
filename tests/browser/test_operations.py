"""The buttons and forms of operators in a real browser, over a service that tunes."""

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.fleet.sample import document
from tests.servers.real_service import RealService
from tunefarm_services.store import LOCAL_TENANT, Store
from tunefarm_services.store.fleet.audit_repository import Actor

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture
def store(service: RealService) -> Iterator[Store]:
    """The service's own store, as another process opens it."""
    opened = Store.open(f"sqlite:///{service.home}/tunefarm.db", service.home / "blobs")
    yield opened
    opened.close()


def open_page(page: "Page", service: RealService, path: str) -> None:
    """Open a page that is accessible and no wider than the window."""
    from axe_playwright_python.sync_playwright import Axe

    page.goto(f"{service.url}/dashboard{path}")
    found = Axe().run(page).response["violations"]
    assert [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]] == [], path
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than the window"


def finished_job(page: "Page", service: RealService) -> str:
    page.goto(f"{service.url}/dashboard/jobs?state=finished")
    href = page.get_attribute("tbody tr:last-child a", "href")
    assert href is not None
    return href.rpartition("/")[2]


def test_job_is_extended_cloned_and_compared(page: "Page", service: RealService) -> None:
    job_id = finished_job(page, service)
    open_page(page, service, f"/jobs/{job_id}")
    page.click("text=More trials, or clone")
    open_page(page, service, f"/jobs/{job_id}/copy")
    page.fill("#more-trials", "2")
    page.click("text=Make more trials")
    page.wait_for_selector("text=Request")
    assert job_id not in page.url
    page.wait_for_selector("#status >> text=succeeded")
    page.goto(f"{service.url}/dashboard/jobs/{job_id}/copy")
    page.select_option("#strategy", "random")
    page.fill("#trials", "4")
    page.fill("#labels", "try=second")
    page.check("text=Ignore stored results")
    page.click("text=Create the job")
    page.wait_for_selector("text=Label try")
    clone_id = page.url.rpartition("/")[2]
    page.wait_for_selector("#status >> text=succeeded")
    page.click("text=Compare with another job")
    page.select_option("#job-b", job_id)
    page.click("button >> text=Compare")
    page.wait_for_selector("#compare-by-trial canvas")
    page.wait_for_selector("#compare-by-time canvas")
    assert f"a={clone_id}&b={job_id}" in page.url
    assert "random" in page.inner_text("#requests + div")
    open_page(page, service, f"/jobs/compare?a={clone_id}&b={job_id}")


def test_lane_is_drained_and_resumed(page: "Page", service: RealService) -> None:
    page.goto(f"{service.url}/dashboard/devices")
    page.click("main h2 a")
    open_page(page, service, page.url.split("/dashboard")[1])
    page.click("tbody >> button >> text=Drain")
    page.wait_for_selector("text=drain requested")
    page.click(".actions >> button >> text=Resume")
    page.wait_for_selector("text=resume requested")


def test_rollout_is_controlled_with_reasons(page: "Page", service: RealService, store: Store) -> None:
    channel = f"channel-{time.monotonic_ns()}"
    store.rollouts.announce(Actor(LOCAL_TENANT, None, time.time()), document(channel=channel))
    open_page(page, service, "/releases")
    page.click(f"text={channel}")
    open_page(page, service, f"/releases/{channel}")
    page.click("button >> text=Pause")
    assert page.evaluate("document.activeElement.id") == "reason-pause"  # a reason is required
    steps = (("pause", "Pause", "paused"), ("resume", "Resume", "running"), ("advance", "Advance", "10%"))
    for verb, label, seen in (*steps, ("stop", "Stop", "halted"), ("roll-back", "Roll back", "rolled back")):
        page.fill(f"#reason-{verb}", f"to try {verb}")
        page.click(f"button >> text={label}")
        page.wait_for_selector(f".figures >> text={seen}")
    page.goto(f"{service.url}/dashboard/releases")
    assert "to try roll-back" in page.inner_text("main")


def test_token_is_created_rotated_and_revoked(page: "Page", service: RealService, store: Store) -> None:
    name = f"robot {time.monotonic_ns()}"
    open_page(page, service, "/tokens")
    page.fill("#name", name)
    page.check("label:has-text('jobs:read') input")
    page.click("text=Create the token")
    first = page.inner_text(".secret")
    assert store.tokens.authenticate(first) is not None
    with page.expect_navigation():
        page.click(f"[aria-label^='Rotate {name}']")
    second = page.inner_text(".secret")
    assert store.tokens.authenticate(first) is None
    page.click(f"[aria-label^='Revoke {name}']")
    page.wait_for_selector(f"tr:has-text('{name}') >> text=revoked")
    assert store.tokens.authenticate(second) is None
    assert re.search("tfk_", page.content()) is None


def test_pages_of_operators_read_without_scripts(chromium: object, service: RealService) -> None:
    context = chromium.new_context(java_script_enabled=False)  # type: ignore[attr-defined]
    page = context.new_page()
    page.goto(service.command("open", "--print"))
    assert "Queue and quotas" in page.inner_text("main")
    for path, seen in (("/usage?tenants=all", "By tenant"), ("/jobs/compare", "First job"), ("/tokens", "New token")):
        page.goto(f"{service.url}/dashboard{path}")
        assert seen in page.inner_text("main")
    context.close()
