"""Forms and buttons of operators: copies of jobs, lanes, rollouts, tokens and usage."""

import time
from typing import TYPE_CHECKING

import pytest

from tests.api.stored import lane, put_job
from tests.browser.page_list import Shown
from tests.browser.visits import NARROW, Visits, faults_of
from tests.fleet.sample import document
from tunefarm_schemas.farm.lane import LaneRequest
from tunefarm_services.store import Store
from tunefarm_services.store.fleet.audit_repository import Actor

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

TENANT = "team"


@pytest.mark.faults
def test_a_job_is_extended_and_cloned(visits: Visits, store: Store) -> None:
    job = put_job(store, TENANT, "copied")
    page = visits.page(TENANT)
    page.goto(visits.address(f"/jobs/{job.job_id}"))
    page.click("text=More trials, or clone")
    page.fill("#more-trials", "2")
    page.click("text=Make more trials")
    more = store.jobs.get(TENANT, _opened_job(page))
    assert (more.spec.effort.trials, more.spec.tasks) == (job.spec.effort.trials + 2, job.spec.tasks)
    page.goto(visits.address(f"/jobs/{job.job_id}/copy"))
    page.select_option("#strategy", "random")
    page.fill("#trials", "4")
    page.fill("#labels", "try=second")
    page.check("text=Ignore stored results")
    page.click("text=Create the job")
    clone = store.jobs.get(TENANT, _opened_job(page))
    assert (clone.spec.strategy, clone.spec.effort.trials, clone.spec.fresh) == ("random", 4, True)
    assert clone.spec.labels == {"try": "second"}
    assert "Label try" in page.inner_text("main")


def test_two_jobs_are_compared_on_one_chart(visits: Visits, shown: Shown) -> None:
    page = visits.page()
    page.goto(visits.address(f"/jobs/{shown.space_job_id}"))
    page.click("text=Compare with another job")
    page.select_option("#job-b", shown.other_job_id)
    page.click("main button >> text=Compare")
    page.wait_for_selector("#compare-by-trial canvas")
    page.wait_for_selector("#compare-by-time canvas")
    assert f"a={shown.space_job_id}&b={shown.other_job_id}" in page.url
    assert "second is faster" in page.inner_text("main")
    page.click("text=Exchange first and second")
    page.wait_for_selector("#compare-by-trial canvas")
    assert "first is faster" in page.inner_text("main")


@pytest.mark.faults
def test_one_lane_and_all_lanes_of_a_device_are_asked(visits: Visits, shown: Shown) -> None:
    page = visits.page(TENANT)
    page.goto(visits.address("/devices"))
    page.click("section:has-text('secret-host') >> h2 a")
    assert page.url.endswith(shown.device_id)
    for request in (each for each in LaneRequest if each is not LaneRequest.NONE):
        for place in ("tbody", ".actions"):
            page.click(f"{place} >> button >> text={request.value.capitalize()}")
            page.wait_for_load_state()
            assert visits.store.lanes.requests()[lane().lane_id] is request
    assert "resume requested" in page.inner_text("section[aria-labelledby=history]")


@pytest.mark.faults
def test_a_rollout_is_controlled_with_reasons(visits: Visits, store: Store) -> None:
    channel = "pressed"
    store.rollouts.announce(Actor(TENANT, None, time.time()), document(channel=channel))
    page = visits.page(TENANT)
    page.goto(visits.address("/releases"))
    page.click(f"text={channel}")
    page.click("button >> text=Pause")
    assert page.evaluate("document.activeElement.id") == "reason-pause", "a reason is required"
    steps = (("pause", "Pause", "paused"), ("resume", "Resume", "running"), ("advance", "Advance", "10%"))
    for verb, label, seen in (*steps, ("stop", "Stop", "halted"), ("roll-back", "Roll back", "rolled back")):
        page.fill(f"#reason-{verb}", f"to try {verb}")
        page.click(f"button >> text={label}")
        page.wait_for_selector(f".figures >> text={seen}")
    page.goto(visits.address("/releases"))
    assert "to try roll-back" in page.inner_text("section[aria-labelledby=audit]")


@pytest.mark.faults
def test_a_token_is_created_rotated_and_revoked(visits: Visits, store: Store) -> None:
    page = visits.page(TENANT, NARROW, checks_policy=False)
    page.goto(visits.address("/tokens"))
    page.fill("#name", "robot")
    page.check("label:has-text('jobs:read') input")
    page.click("text=Create the token")
    first = page.inner_text(".secret")
    assert store.tokens.authenticate(first) is not None
    assert faults_of(page) == []
    with page.expect_navigation():
        page.click("[aria-label^='Rotate robot']")
    second = page.inner_text(".secret")
    assert store.tokens.authenticate(first) is None
    page.click("[aria-label^='Revoke robot']")
    page.wait_for_selector("tr:has-text('robot') >> text=revoked")
    assert store.tokens.authenticate(second) is None
    assert "tfk_" not in page.content()


@pytest.mark.faults
def test_usage_is_shown_since_a_day_and_of_all_tenants(visits: Visits, shown: Shown, shown_hostile: Shown) -> None:
    page = visits.page(has_scripts=False)
    page.goto(visits.address("/usage"))
    assert "By tenant" not in page.inner_text("main")
    page.check("text=All tenants")
    page.click("text=Show")
    assert "By tenant" in page.inner_text("main")
    page.fill("#since", "2999-01-01")
    page.click("text=Show")
    assert "Nothing was measured since 2999-01-01" in page.inner_text("main")


def _opened_job(page: "Page") -> str:
    """The id of the job whose page a form leads to."""
    page.wait_for_selector("#request")
    return page.url.rpartition("/")[2]
