"""The page of a job that a real tuner runs, and that goes on after both were killed."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.visits import Visits, wait_until
from tests.servers.real_service import RealService
from tunefarm_services.store import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.faults]


@pytest.fixture(scope="module")
def tuning_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealService]:
    serving = RealService(tmp_path_factory.mktemp("tuning-pages"))
    serving.start()
    yield serving
    serving.kill()


@pytest.fixture
def tuning_visits(chromium: "Browser", tuning_service: RealService) -> Iterator[Visits]:
    store = Store.open(f"sqlite:///{tuning_service.home}/tunefarm.db", tuning_service.home / "blobs")
    visiting = Visits(chromium, tuning_service, store)
    yield visiting
    store.close()
    visiting.close()


def test_a_running_job_is_shown_as_it_runs(tuning_visits: Visits) -> None:
    job_id = _submit(tuning_visits.service, "48x48x48")
    page = tuning_visits.page()
    page.goto(tuning_visits.address(f"/jobs/{job_id}"))
    wait_until(page, lambda: _trials(page) > 0)
    first = _trials(page)
    wait_until(page, lambda: _trials(page) > first)
    page.wait_for_selector("#by-trial canvas")
    page.click("#actions >> text=Pause")
    page.wait_for_selector("#actions >> text=Resume")
    page.click("#actions >> text=Cancel")
    page.wait_for_selector("#status >> text=canceled")
    page.wait_for_selector("#actions button", state="detached")


def test_a_page_goes_on_after_the_service_was_killed(tuning_visits: Visits) -> None:
    service = tuning_visits.service
    job_id = _submit(service, "40x40x40")
    page = tuning_visits.page()
    page.goto(tuning_visits.address(f"/jobs/{job_id}"))
    page.evaluate("window.isTheSamePage = true")
    wait_until(page, lambda: _trials(page) > 0)
    for _ in range(3):
        before = _trials(page)
        service.kill()
        service.start()
        wait_until(page, lambda before=before: _trials(page) > before)
    assert page.evaluate("window.isTheSamePage")
    service.command("cancel", job_id)
    page.wait_for_selector("#status >> text=canceled")
    tuning_visits.forget_lost_connections()


def _submit(service: RealService, shape: str) -> str:
    words = ("submit", f"builtin:matmul:{shape}", "--trials", "4000", "--fresh", "--json")
    return str(json.loads(service.command(*words))["job_id"])


def _trials(page: "Page") -> int:
    found = re.search(r"(\d+) of \d+", page.inner_text("#status"))
    return int(found[1]) if found is not None else 0
