"""Tokens and usage: what administrators see and change."""

import re
from datetime import UTC, datetime

import httpx
import pytest
from fastapi import FastAPI

from tests.api.stored import furnished
from tests.dashboard.viewers import Viewer, logged_in
from tunefarm_schemas.token import Scope, Token
from tunefarm_services.store import Store

NEW = {"name": "continuous integration", "scope jobs:read": "on", "scope jobs:write": "on"}


def once(browser: Viewer, row: str = "") -> str:
    """The key of the form of a row, or of the new token."""
    page = browser.get("/dashboard/tokens").text
    return re.findall(r'name="once" value="([0-9a-f]+)"', page.split(row)[-1] if row else page)[0 if row else -1]


def create(browser: Viewer, **fields: str) -> httpx.Response:
    given = {"form_key": browser.form_key(), "once": once(browser)} | NEW | fields
    return browser.submit("/dashboard/tokens", given)


def secret_in(answer: httpx.Response) -> str:
    return re.findall(r"tfk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", answer.text)[0]


def named(store: Store, name: str, tenant: str = "alice") -> Token:
    return next(each for each in store.tokens.of_people(tenant) if each.name == name)


def test_new_token_is_shown_once_and_works(app: FastAPI, store: Store) -> None:
    browser = logged_in(app, store, "alice")
    answer = create(browser, days="30")
    assert answer.status_code == 200, answer.text
    found = store.tokens.authenticate(secret_in(answer))
    assert found is not None
    assert (found.tenant, found.name) == ("alice", "continuous integration")
    assert found.scopes == (Scope.JOBS_READ, Scope.JOBS_WRITE)
    assert found.expires_at is not None
    assert 29 <= (datetime.fromisoformat(found.expires_at) - datetime.now(UTC)).days <= 30
    assert "tfk_" not in browser.get("/dashboard/tokens").text


def test_form_that_is_sent_again_creates_no_second_token(app: FastAPI, store: Store) -> None:
    browser = logged_in(app, store, "alice")
    fields = {"form_key": browser.form_key(), "once": once(browser)} | NEW
    assert "tfk_" in browser.submit("/dashboard/tokens", fields).text
    again = browser.submit("/dashboard/tokens", fields).text
    assert "tfk_" not in again
    assert "sent before" in again
    assert [each.name for each in store.tokens.of_people("alice")].count(NEW["name"]) == 1


def test_rotation_replaces_the_text_and_revocation_ends_it(app: FastAPI, store: Store) -> None:
    browser = logged_in(app, store, "alice")
    old = secret_in(create(browser))
    token_id = named(store, NEW["name"]).token_id
    path = f"/dashboard/tokens/{token_id}"
    answer = browser.submit(f"{path}/rotate", {"form_key": browser.form_key(), "once": once(browser, token_id)})
    new = secret_in(answer)
    assert store.tokens.authenticate(old) is None
    assert store.tokens.authenticate(new) is not None
    assert browser.submit(f"{path}/revoke", {"form_key": browser.form_key()}).status_code == 303
    assert store.tokens.authenticate(new) is None
    page = browser.get("/dashboard/tokens").text
    assert "revoked" in page
    assert f"{path}/revoke" not in page


@pytest.mark.parametrize(
    ("fields", "told"),
    [({"name": " "}, "name"), ({"days": "0"}, "days"), ({"days": "soon"}, "days"), ({"name": "x" * 201}, "name")],
)
def test_unusable_form_is_refused(app: FastAPI, store: Store, fields: dict[str, str], told: str) -> None:
    answer = create(logged_in(app, store, "alice"), **fields)
    assert (answer.status_code, told in answer.text) == (400, True)
    assert len(store.tokens.of_people("alice")) == 1


def test_token_gets_no_scope_that_the_viewer_lacks(app: FastAPI, store: Store) -> None:
    scopes = (Scope.JOBS_READ, Scope.TOKENS_ADMIN)
    administrator = logged_in(app, store, "alice", scopes)
    assert "jobs:write" not in administrator.get("/dashboard/tokens").text.split("New token")[1]
    assert create(administrator).status_code == 403
    stronger, _ = store.tokens.create("alice", "stronger", (Scope.JOBS_WRITE,))
    fields = {"form_key": administrator.form_key(), "once": once(administrator, stronger.token_id)}
    assert administrator.submit(f"/dashboard/tokens/{stronger.token_id}/rotate", fields).status_code == 403


def test_tokens_need_the_scope_the_key_and_the_own_tenant(app: FastAPI, store: Store) -> None:
    theirs, text = store.tokens.create("bob", "secret token of bob", (Scope.JOBS_READ,))
    browser, reader = logged_in(app, store, "alice"), logged_in(app, store, "alice", (Scope.JOBS_READ,))
    assert reader.get("/dashboard/tokens").status_code == 403
    assert "/dashboard/tokens" not in reader.get("/dashboard/").text
    assert "bob" not in browser.get("/dashboard/tokens").text
    key = {"form_key": browser.form_key(), "once": once(browser)}
    for verb in ("rotate", "revoke"):
        assert browser.submit(f"/dashboard/tokens/{theirs.token_id}/{verb}", key).status_code == 404
    assert browser.submit("/dashboard/tokens", NEW | {"once": once(browser)}).status_code == 403
    assert browser.submit("/dashboard/tokens", NEW | key, Origin="https://evil.example").status_code == 403
    assert store.tokens.authenticate(text) is not None


def test_sessions_and_devices_are_not_listed_and_pages_have_addresses(app: FastAPI, store: Store) -> None:
    furnished(store, "alice")
    for number in range(60):
        store.tokens.create("alice", f"robot {number}", (Scope.JOBS_READ,))
    browser = logged_in(app, store, "alice")
    first = browser.get("/dashboard/tokens").text
    assert "browser session" not in first
    assert "device of alice" not in first
    following = re.findall(r'href="(/dashboard/tokens\?after=\w+)"', first)[0]
    names = re.findall(r"robot \d+(?=</td>)", first + browser.get(following).text)
    assert len(names) == len(set(names)) == 60


def test_usage_is_shown_by_day_and_of_all_tenants_to_operators_only(app: FastAPI, store: Store) -> None:
    furnished(store, "alice")
    furnished(store, "bob")
    alice, operator = logged_in(app, store, "alice"), logged_in(app, store, "operator")
    own = alice.get("/dashboard/usage").text
    assert "0:13" in own
    assert "bob" not in own
    assert alice.get("/dashboard/usage?tenants=all").status_code == 403
    both = operator.get("/dashboard/usage?tenants=all").text
    assert "By tenant" in both
    assert re.search(r"alice.*bob", both, re.DOTALL)
    assert "Nothing was measured" in alice.get("/dashboard/usage?since=2999-01-01").text
    assert alice.get("/dashboard/usage?since=yesterday").status_code == 400
    assert logged_in(app, store, "alice", (Scope.JOBS_READ,)).get("/dashboard/usage").status_code == 403
