"""Viewers of pages, who keep cookies and send forms as a browser does."""

import re
from collections.abc import Mapping
from urllib.parse import urlencode

import httpx
from fastapi import FastAPI

from tests.api.people import InProcess
from tunefarm_schemas.token import Scope
from tunefarm_services.store import Store

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Viewer(httpx.Client):
    """A browser without scripts. ``token_id`` and ``secret`` are of the token that it logged in with."""

    token_id = ""
    secret = ""

    def submit(self, path: str, fields: Mapping[str, str], **headers: str) -> httpx.Response:
        return self.post(path, content=urlencode(fields), headers=FORM | headers)

    def form_key(self) -> str:
        found = re.search(r'name="form_key" value="([0-9a-f]+)"', self.get("/dashboard/").text)
        assert found is not None
        return found[1]


def viewer(app: FastAPI) -> Viewer:
    return Viewer(transport=InProcess(app), base_url="http://tunefarm")


def logged_in(app: FastAPI, store: Store, tenant: str, scopes: tuple[Scope, ...] = tuple(Scope)) -> Viewer:
    token, text = store.tokens.create(tenant, f"token of {tenant}", scopes)
    browser = viewer(app)
    answer = browser.submit("/dashboard/login", {"token": text})
    assert answer.status_code == 303, answer.text
    browser.token_id, browser.secret = token.token_id, text
    return browser
