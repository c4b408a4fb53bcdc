"""What holds for every page: it is accessible, fits its window, reads without scripts, and runs no text of a user."""

import re
from collections.abc import Container
from typing import TYPE_CHECKING

import pytest

from tests.browser import hostile
from tests.browser.page_list import ALIKE, DOWNLOADS, DRAWN, PAGES, PARTS, Shown, paths_of
from tests.browser.visits import NARROW, WIDE, View, Visits, faults_of
from tunefarm_schemas.farm.lane import LaneRequest
from tunefarm_services.dashboard import app

if TYPE_CHECKING:
    from playwright.sync_api import Page, Response

pytestmark = pytest.mark.browser


MISSING = "no such page"
BUTTONS = {
    *("Log out", "Log in"),
    *("Pause", "Resume", "Finish now", "Cancel"),
    *("Make more trials", "Create the job", "Compare"),
    *("Advance", "Roll back", "Stop"),
    *("Show", "Create the token", "Rotate", "Revoke"),
    *(each.value.capitalize() for each in LaneRequest if each is not LaneRequest.NONE),
}
"""What the tests of sessions, jobs, copies, channels, usage, tokens and devices press."""
WITHOUT_TEXTS: frozenset[str] = frozenset({"login", "usage", MISSING})
"""Pages that show no text of a tenant."""


def test_every_route_for_browsers_is_in_the_list_of_pages() -> None:
    routes = [route for each in app.PAGES for route in each.ROUTES if "GET" in (route.methods or ())]
    paths = [*PAGES.values(), *DOWNLOADS.values()]
    listed = [re.sub(r"\{\w+\}", "x", path).partition("?")[0] for path in paths]
    missing = {route.path for route in routes if not any(route.path_regex.fullmatch(path) for path in listed)}
    assert missing == PARTS


@pytest.mark.parametrize(
    ("tenant", "view", "left_out"),
    [
        pytest.param("local", WIDE, ALIKE | DRAWN, id="own-wide"),
        pytest.param("local", WIDE, PAGES.keys() - ALIKE - DRAWN, id="own-wide-alike", marks=pytest.mark.faults),
        pytest.param(hostile.TENANT, NARROW, (), id="hostile-narrow", marks=pytest.mark.faults),
        pytest.param("local", NARROW, (), id="own-narrow", marks=pytest.mark.faults),
        pytest.param(hostile.TENANT, WIDE, (), id="hostile-wide", marks=pytest.mark.faults),
    ],
)
@pytest.mark.usefixtures("hostile_device")
def test_every_page_is_accessible_and_fits(
    visits: Visits, shown: Shown, shown_hostile: Shown, tenant: str, view: View, left_out: Container[str]
) -> None:
    page = visits.page(tenant, view)
    found = {}
    buttons: set[str] = set()
    for name, path in paths_of(shown if tenant == "local" else shown_hostile).items():
        if name in left_out:
            continue
        _open(visits, page, name, path)
        if faults := faults_of(page):
            found[name] = faults
        buttons |= set(page.locator("button").all_inner_texts())
    assert found == {}
    assert buttons <= BUTTONS, "a button without a test"


@pytest.mark.parametrize(
    "left_out", [ALIKE, pytest.param(PAGES.keys() - ALIKE, marks=pytest.mark.faults)], ids=["unlike", "alike"]
)
@pytest.mark.usefixtures("hostile_device")
def test_hostile_text_is_shown_as_it_is(visits: Visits, shown_hostile: Shown, left_out: Container[str]) -> None:
    page = visits.page(hostile.TENANT)
    paths = paths_of(shown_hostile)
    for name in [each for each in PAGES if each not in WITHOUT_TEXTS and each not in left_out]:
        _open(visits, page, name, paths[name])
        assert "<img src=x onerror=alert(2)>" in page.locator("main").text_content(), name
        assert "49${7*7}" not in page.locator("main").text_content(), name
        assert page.locator("main img, main script, main style, main svg[onload]").count() == 0, name
        assert page.locator("header").is_visible(), name


@pytest.mark.faults
def test_every_page_reads_without_scripts(visits: Visits, shown: Shown) -> None:
    page = visits.page(has_scripts=False)
    for name, path in paths_of(shown).items():
        _open(visits, page, name, path)
        assert page.inner_text("h1"), name


def test_a_job_reads_without_scripts(visits: Visits, shown: Shown) -> None:
    page = visits.page(has_scripts=False)
    page.goto(visits.address(f"/jobs/{shown.job_id}"))
    assert re.search(r"\d+ of \d+", page.inner_text("#status"))
    assert "record" in page.locator("#results").locator("..").inner_text().lower()
    page.click("text=All trials")
    assert page.locator("tbody tr").count() > 1


def test_scripts_of_a_page_weigh_less_than_200_kilobytes(visits: Visits, shown: Shown) -> None:
    page = visits.page()
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))
    page.goto(visits.address(f"/jobs/{shown.job_id}"))
    page.wait_for_selector("#by-trial canvas")
    sizes = [len(each.body()) for each in responses if each.request.resource_type == "script"]
    assert 0 < sum(sizes) < 200_000


def _open(visits: Visits, page: "Page", name: str, path: str) -> None:
    answer = page.goto(visits.address(path))
    assert answer is not None
    if name == MISSING:
        assert answer.status == 404
        assert [visits.problems.pop()] == [
            "Failed to load resource: the server responded with a status of 404 (Not Found)"
        ]
        return
    assert answer.status == 200, name
