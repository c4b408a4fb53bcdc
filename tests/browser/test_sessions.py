"""Sessions in a browser: they begin with a token or a link, and end by the user, by time and with their token."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, update

from tests.api.stored import furnished, lane, put_job
from tests.browser.page_list import Shown, paths_of
from tests.browser.visits import Visits, wait_until
from tests.servers.real_service import RealService
from tunefarm_schemas.token import Scope
from tunefarm_schemas.views.device import device_id_of
from tunefarm_services.store.tables import TokenTable

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_the_login_takes_a_token_and_leads_back_to_the_page(visits: Visits, service: RealService) -> None:
    page = visits.page(None)
    page.goto(visits.address("/records?status=verified"))
    assert "/login?next=" in page.url
    page.fill("#token", "tfk_wrong")
    _press_log_in(page)
    assert "unknown, revoked or expired" in page.inner_text("[role=alert]")
    assert [visits.problems.pop()] == [
        "Failed to load resource: the server responded with a status of 401 (Unauthorized)"
    ]
    page.fill("#token", (service.home / "token").read_text().strip())
    _press_log_in(page)
    page.wait_for_url("**/dashboard/records?status=verified")


def test_open_logs_in_by_a_link_that_works_once(visits: Visits, service: RealService) -> None:
    link = service.command("open", "--print")
    first, second = visits.page(None), visits.page(None)
    first.goto(link)
    assert first.inner_text("h1") == "Overview"
    second.goto(link)
    assert "was used or has expired" in second.inner_text("[role=alert]")
    assert "401" in visits.problems.pop()


@pytest.mark.faults
def test_log_out_ends_the_session_in_every_window(visits: Visits) -> None:
    page = visits.page()
    other = page.context.new_page()
    page.goto(visits.address("/"))
    cookies = page.context.cookies()
    page.click("text=Log out")
    page.wait_for_url("**/login")
    other.goto(visits.address("/jobs"))
    assert "/login?next=" in other.url
    thief = visits.page(None)
    thief.context.add_cookies(cookies)  # type: ignore[arg-type]
    thief.goto(visits.address("/jobs"))
    assert "/login?next=" in thief.url


@pytest.mark.faults
def test_a_session_ends_with_its_time(visits: Visits) -> None:
    page = visits.page(None)
    token_id = visits.log_in(page.context, "local")
    page.goto(visits.address("/jobs"))
    assert page.inner_text("h1") == "Jobs"
    _expire(visits, token_id)
    wait_until(page, lambda: _is_led_to_the_login(page))
    assert page.context.cookies()[0]["expires"] == -1 or "next=/dashboard/jobs" in page.url


def test_an_open_page_says_that_its_session_has_ended(visits: Visits, shown: Shown) -> None:
    page = visits.page(None)
    token_id = visits.log_in(page.context, "local")
    page.goto(visits.address(f"/jobs/{shown.open_job_id}"))
    assert page.inner_text("#actions")
    visits.store.tokens.revoke("local", token_id)
    page.wait_for_selector("#live [role=alert]")
    page.click("#live >> text=Log in")
    page.wait_for_url("**/login")


@pytest.mark.faults
def test_two_tenants_see_their_own_things_alone(visits: Visits) -> None:
    belongings = {tenant: _pages_of(visits, tenant) for tenant in ("alice", "bob")}
    for tenant, other in (("alice", "bob"), ("bob", "alice")):
        page = visits.page(tenant)
        for name in ("overview", "jobs", "job", "choice of jobs", "records", "record"):
            page.goto(visits.address(belongings[tenant][name]))
            assert f"matmul_{tenant}" in page.content(), name
            assert other not in page.content(), name
        for name in ("job", "trials", "space", "model", "copy", "comparison", "record", "artifact", "channel"):
            page.goto(visits.address(belongings[other][name]))
            assert "404" in visits.problems.pop()
            assert f"matmul_{other}" not in page.content(), name


def _pages_of(visits: Visits, tenant: str) -> dict[str, str]:
    theirs = furnished(visits.store, tenant)
    return paths_of(
        Shown(
            job_id=theirs.job_id,
            open_job_id=put_job(visits.store, tenant, "open").job_id,
            exploration_id=theirs.exploration_id,
            record_id=theirs.record_id,
            artifact_id=theirs.artifact_id,
            space_job_id=theirs.job_id,
            other_job_id=theirs.job_id,
            model_job_id=theirs.job_id,
            device_id=device_id_of(lane()),
            channel=theirs.name,
        )
    )


@pytest.mark.faults
def test_a_reader_sees_no_buttons(visits: Visits, shown: Shown) -> None:
    page = visits.page(scopes=(Scope.JOBS_READ, Scope.DEVICES_READ))
    for path in (f"/jobs/{shown.open_job_id}", "/devices"):
        page.goto(visits.address(path))
        assert page.locator("main button").count() == 0, path


def _press_log_in(page: "Page") -> None:
    page.click("main button")


def _is_led_to_the_login(page: "Page") -> bool:
    page.reload()
    return "/login" in page.url


def _expire(visits: Visits, token_id: str) -> None:
    """Let the time of the sessions of a token be over."""
    engine = create_engine(f"sqlite:///{visits.service.home}/tunefarm.db")
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    with engine.begin() as connection:
        connection.execute(update(TokenTable).where(TokenTable.session_of == token_id).values(expires_at=past))
    engine.dispose()
