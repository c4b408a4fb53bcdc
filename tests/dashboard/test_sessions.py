"""Sessions of browsers: how they begin, what they permit, and how they end."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from fastapi import FastAPI

from tests.api.people import caller_of
from tests.api.stored import put_job
from tests.dashboard.viewers import logged_in, viewer
from tunefarm_schemas.token import Scope
from tunefarm_services.store import Store


@pytest.mark.parametrize("path", ["/", "/dashboard"])
def test_the_root_leads_to_the_pages(app: FastAPI, store: Store, path: str) -> None:
    assert viewer(app).get(path).headers["location"] == "/dashboard/"


@pytest.mark.parametrize("path", ["/", "/jobs", "/records", "/devices", "/jobs/1?task=2"])
def test_a_page_without_a_session_leads_to_the_login_and_back(app: FastAPI, store: Store, path: str) -> None:
    _, text = store.tokens.create("alice", "token", tuple(Scope))
    browser = viewer(app)
    refused = browser.get(f"/dashboard{path}")
    assert refused.status_code == 303
    login = httpx_url(refused.headers["location"])
    assert login.path == "/dashboard/login"
    answer = browser.submit("/dashboard/login", {"token": text, "next": login.params["next"]})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/dashboard{path}")


def test_a_wrong_token_is_refused_and_sets_no_cookie(app: FastAPI, store: Store) -> None:
    answer = viewer(app).submit("/dashboard/login", {"token": "tfk_0123456789abcdef_" + "a" * 43})
    assert answer.status_code == 401
    assert "unknown, revoked or expired" in answer.text
    assert "set-cookie" not in answer.headers


def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(app: FastAPI, store: Store) -> None:
    _, text = store.tokens.create("alice", "token", tuple(Scope))
    cookie = viewer(app).submit("/dashboard/login", {"token": text}).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/dashboard"} <= set(cookie.split("; "))
    assert text not in cookie


def test_the_cookie_counts_for_pages_alone(app: FastAPI, store: Store) -> None:
    browser = logged_in(app, store, "alice")
    cookie = browser.cookies.jar
    plain = viewer(app)
    for each in cookie:
        plain.cookies.set(each.name, each.value or "", path="/")
    assert plain.get("/v1/jobs").status_code == 401


def test_a_session_has_the_scopes_of_its_token(app: FastAPI, store: Store) -> None:
    browser = logged_in(app, store, "alice", (Scope.JOBS_READ,))
    assert browser.get("/dashboard/jobs").status_code == 200
    assert browser.get("/dashboard/records").status_code == 403


def test_log_out_ends_the_session_on_the_server(app: FastAPI, store: Store) -> None:
    browser = logged_in(app, store, "alice")
    kept = dict(browser.cookies)
    assert browser.submit("/dashboard/logout", {"form_key": browser.form_key()}).status_code == 303
    thief = viewer(app)
    for name, value in kept.items():
        thief.cookies.set(name, value)
    assert thief.get("/dashboard/").status_code == 303


@pytest.mark.parametrize("ending", ["revoke", "rotate"])
def test_a_session_ends_with_its_token(app: FastAPI, store: Store, ending: str) -> None:
    _, administrator = store.tokens.create("alice", "administrator", tuple(Scope))
    browser = logged_in(app, store, "alice")
    assert browser.get("/dashboard/").status_code == 200
    answer = caller_of(app, f"Bearer {administrator}").post(f"/v1/tokens/{browser.token_id}:{ending}")
    assert answer.is_success, answer.text
    assert browser.get("/dashboard/").status_code == 303


def test_a_session_does_not_outlive_its_token(store: Store) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    _, text = store.tokens.create("alice", "short", (Scope.JOBS_READ,), soon)
    link = store.tokens.open_session(text, 60.0, "link")
    assert link is not None
    session = store.tokens.open_session(link, 3600.0, "session", once=True)
    assert session is not None
    found = store.tokens.authenticate(session)
    assert found is not None
    assert found.expires_at == soon


def test_a_link_logs_in_once(app: FastAPI, store: Store) -> None:
    _, text = store.tokens.create("alice", "token", tuple(Scope))
    made = viewer(app).post("/dashboard/links", headers={"Authorization": f"Bearer {text}"})
    assert made.status_code == 201
    first, second = viewer(app), viewer(app)
    assert first.get(made.json()["path"]).headers["location"] == "/dashboard/"
    assert first.get("/dashboard/").status_code == 200
    refused = second.get(made.json()["path"])
    assert refused.status_code == 401
    assert "was used or has expired" in refused.text


def test_links_need_a_token(app: FastAPI, store: Store) -> None:
    assert viewer(app).post("/dashboard/links").status_code == 401


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example", "/dashboard//evil.example", "/\\evil.example", "/v1/jobs"]
)
def test_login_leads_to_no_other_site(app: FastAPI, store: Store, elsewhere: str) -> None:
    _, text = store.tokens.create("alice", "token", tuple(Scope))
    answer = viewer(app).submit("/dashboard/login", {"token": text, "next": elsewhere})
    assert answer.headers["location"] == "/dashboard/"


def test_forms_of_other_sites_change_nothing(app: FastAPI, store: Store) -> None:
    browser = logged_in(app, store, "alice")
    job = put_job(store, "alice")
    path, key = f"/dashboard/jobs/{job.job_id}/cancel", browser.form_key()
    assert browser.submit(path, {}).status_code == 403
    assert browser.submit(path, {"form_key": "0" * 64}).status_code == 403
    assert browser.submit(path, {"form_key": key}, Origin="https://evil.example").status_code == 403
    assert browser.submit(path, {"form_key": key}, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert store.jobs.get("alice", job.job_id) == job
    assert browser.submit(path, {"form_key": key}, Origin="http://tunefarm").status_code == 303
    assert store.jobs.get("alice", job.job_id).outcome is not None


def test_guessing_of_tokens_is_slowed_down(app_with: object, store: Store) -> None:
    app = app_with(refused_rate_limit="3/day")  # type: ignore[operator]
    browser = viewer(app)
    answers = [browser.submit("/dashboard/login", {"token": f"guess {number}"}).status_code for number in range(5)]
    assert answers == [401, 401, 401, 429, 429]


def httpx_url(text: str) -> httpx.URL:
    return httpx.URL(text, scheme="http", host="tunefarm")
