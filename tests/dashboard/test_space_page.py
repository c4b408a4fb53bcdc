"""The page of a task's space."""

import re

import pytest
from fastapi import FastAPI

from tests.api.stored import furnished
from tests.dashboard.viewers import Viewer, logged_in
from tests.service.space.stored_space import put_space, put_trial, trace_text
from tests.store.sample import timing
from tunefarm_schemas.token import Scope
from tunefarm_services.store import Store

HOSTILE = "</text><script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"


@pytest.fixture
def browser(app: FastAPI, store: Store) -> Viewer:
    return logged_in(app, store, "alice")


def test_the_page_shows_importance_fastest_trials_and_the_model(browser: Viewer, store: Store) -> None:
    mine = furnished(store, "alice")
    put_space(mine.bench, 100, first_number=2)
    answer = browser.get(f"/dashboard/jobs/{mine.job_id}/space?task=0")
    assert answer.status_code == 200
    rows = re.findall(r'<tr><th scope="row">(\w+)</th><td class="name">([^<]+)</td>', answer.text)
    assert rows[0] == ("tile", "product, loop 0")
    assert {name for _, name in rows} == {"product, loop 0", "product, loop 1", "unroll_explicit"}
    assert answer.text.count('<path class="trial ') == 95
    assert 'class="point"' in answer.text
    assert "<script" not in answer.text
    assert " style=" not in answer.text


def test_the_address_chooses_sketch_and_trial(browser: Viewer, store: Store) -> None:
    mine = furnished(store, "alice")
    for number in range(2, 60):
        text = trace_text(number % 6, 0, 0, block="often" if number % 3 else "seldom")
        put_trial(mine.bench, number, text, 0.0, timing(1e-3 + 1e-5 * number))
    address = f"/dashboard/jobs/{mine.job_id}/space?task=0"
    assert "often, loop 0" in browser.get(f"{address}&sketch=0").text
    other = browser.get(f"{address}&sketch=1&trial=3").text
    assert "seldom, loop 0" in other
    assert "often, loop 0" not in other
    assert other.count('<path class="trial chosen"') == 1
    for strange in ("&sketch=99", "&sketch=x&trial=-1", "&trial=99999999999999999999"):
        assert browser.get(f"{address}{strange}").status_code == 200


def test_a_task_without_trials_says_so(browser: Viewer, store: Store) -> None:
    mine = furnished(store, "alice")
    page = browser.get(f"/dashboard/jobs/{mine.job_id}/space")
    assert "No trial was measured yet" in page.text
    assert browser.get(f"/dashboard/jobs/{mine.job_id}/space?task=7").status_code == 404


def test_hostile_names_in_traces_are_shown_and_not_run(browser: Viewer, store: Store) -> None:
    mine = furnished(store, "alice")
    for number in range(2, 50):
        put_trial(
            mine.bench, number, trace_text(number % 6, 1, number % 4, block=HOSTILE), 0.0, timing(1e-3 + 1e-5 * number)
        )
    text = browser.get(f"/dashboard/jobs/{mine.job_id}/space").text
    assert "&lt;/text&gt;&lt;script&gt;" in text
    assert "<script" not in text
    assert "<img" not in text
    assert "49" not in re.findall(r"onerror=alert\(2\)&gt;(\d+)", text)


def test_no_tenant_sees_the_space_of_another(app: FastAPI, store: Store) -> None:
    theirs = furnished(store, "bob")
    put_space(theirs.bench, 40, first_number=2)
    mine = logged_in(app, store, "alice")
    assert mine.get(f"/dashboard/jobs/{theirs.job_id}/space").status_code == 404
    without = logged_in(app, store, "bob", (Scope.RECORDS_READ,))
    assert without.get(f"/dashboard/jobs/{theirs.job_id}/space").status_code == 403
