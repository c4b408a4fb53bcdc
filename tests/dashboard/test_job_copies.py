"""Forms that make a job from another one, and the page of two jobs."""

import re

import pytest
from fastapi import FastAPI

from tests.api.stored import furnished, put_job, summarize
from tests.dashboard.viewers import Viewer, logged_in
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.job import Effort
from tunefarm_services.store import Store

CLONE = {"trials": "30", "strategy": "random", "seed": "7", "labels": "try=2\n\nteam=a b"}


def once_keys(browser: Viewer, job_id: str) -> list[str]:
    return re.findall(r'name="once" value="([0-9a-f]+)"', browser.get(f"/dashboard/jobs/{job_id}/copy").text)


def test_clone_form_is_filled_with_the_request_and_makes_a_job(app: FastAPI, store: Store) -> None:
    job = put_job(store, "alice")
    browser = logged_in(app, store, "alice")
    form = browser.get(f"/dashboard/jobs/{job.job_id}/copy").text
    assert 'id="trials" name="trials" type="number" required min="1" max="10000000" value="10"' in form
    assert "owner=label of alice" in form
    fields = CLONE | {"form_key": browser.form_key(), "once": once_keys(browser, job.job_id)[1], "fresh": "on"}
    answer = browser.submit(f"/dashboard/jobs/{job.job_id}/clone", fields | {"seconds": "1.5"})
    assert answer.status_code == 303, answer.text
    clone = store.jobs.get("alice", answer.headers["location"].rpartition("/")[2])
    assert clone.spec.tasks == job.spec.tasks
    assert clone.spec.effort == Effort(trials=30, seconds=1.5)
    assert (clone.spec.strategy, clone.spec.seed, clone.spec.fresh) == ("random", 7, True)
    assert clone.spec.labels == {"try": "2", "team": "a b"}


def test_form_of_more_trials_makes_a_job_once(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    browser = logged_in(app, store, "alice")
    fields = {"trials": "5", "form_key": browser.form_key(), "once": once_keys(browser, mine.job_id)[0]}
    path = f"/dashboard/jobs/{mine.job_id}/extend"
    first, again = browser.submit(path, fields), browser.submit(path, fields)
    assert first.status_code == again.status_code == 303
    assert first.headers["location"] == again.headers["location"]
    assert store.jobs.count("alice") == 2
    changed = browser.submit(path, fields | {"trials": "6"})
    assert changed.status_code == 409
    made = store.jobs.get("alice", first.headers["location"].rpartition("/")[2])
    assert made.spec.effort.trials == 15


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"trials": "0"}, "trials"),
        ({"trials": "many"}, "trials"),
        ({"seconds": "-1"}, "seconds"),
        ({"strategy": "replay"}, "strategy"),
        ({"labels": "no value"}, "labels"),
        ({"seed": "4294967296"}, "seed"),
    ],
)
def test_unusable_form_is_refused_and_can_be_corrected(
    app: FastAPI, store: Store, change: dict[str, str], told: str
) -> None:
    job = put_job(store, "alice")
    browser = logged_in(app, store, "alice")
    fields = CLONE | {"form_key": browser.form_key(), "once": once_keys(browser, job.job_id)[1]}
    refused = browser.submit(f"/dashboard/jobs/{job.job_id}/clone", fields | change)
    assert (refused.status_code, told in refused.text) == (400, True)
    assert browser.submit(f"/dashboard/jobs/{job.job_id}/clone", fields).status_code == 303


@pytest.mark.parametrize("verb", ["clone", "extend"])
def test_copies_need_the_scope_the_key_and_the_own_job(app: FastAPI, store: Store, verb: str) -> None:
    job, theirs = put_job(store, "alice"), put_job(store, "bob")
    reader, writer = logged_in(app, store, "alice", (Scope.JOBS_READ,)), logged_in(app, store, "alice")
    fields = CLONE | {"once": once_keys(writer, job.job_id)[0]}
    path = f"/dashboard/jobs/{job.job_id}/{verb}"
    assert reader.get(f"/dashboard/jobs/{job.job_id}/copy").status_code == 403
    assert reader.submit(path, fields | {"form_key": reader.form_key()}).status_code == 403
    assert writer.submit(path, fields).status_code == 403
    key = {"form_key": writer.form_key()}
    assert writer.submit(path, fields | key, Origin="https://evil.example").status_code == 403
    assert writer.submit(path, CLONE | key).status_code == 400
    assert writer.submit(f"/dashboard/jobs/{theirs.job_id}/{verb}", fields | key).status_code == 404
    assert store.jobs.count("alice") == store.jobs.count("bob") == 1
    assert "clone" not in reader.get(f"/dashboard/jobs/{job.job_id}").text


def test_no_more_jobs_are_made_than_a_tenant_may_have(app_with: object, store: Store) -> None:
    job = put_job(store, "alice")
    browser = logged_in(app_with(open_jobs_per_tenant=1), store, "alice")  # type: ignore[operator]
    fields = CLONE | {"form_key": browser.form_key(), "once": once_keys(browser, job.job_id)[1]}
    assert browser.submit(f"/dashboard/jobs/{job.job_id}/clone", fields).status_code == 429


def test_two_jobs_are_compared_at_an_address(app: FastAPI, store: Store) -> None:
    mine, theirs = furnished(store, "alice"), put_job(store, "bob")
    summarize(store, mine, 2e-3, (1.9e-3, 2.1e-3))
    other = put_job(store, "alice")
    browser = logged_in(app, store, "alice", (Scope.JOBS_READ,))
    address = f"/dashboard/jobs/compare?a={mine.job_id}&b={other.job_id}"
    page = browser.get(address).text
    assert "2 ms" in page
    assert "crash 1" in page
    assert "Their requests are equal." in page
    chart = page.split('data-chart="')[1].split('"')[0].replace("&amp;", "&")
    drawn = browser.get(chart).json()
    assert [point["trials"] for point in drawn["first"]] == [1, 2]
    assert drawn["second"] == []
    assert theirs.job_id not in page
    assert browser.get(f"/dashboard/jobs/compare?a={mine.job_id}&b={theirs.job_id}").status_code == 404
    assert browser.get(f"/dashboard/jobs/compare/chart?a={mine.job_id}&b={theirs.job_id}").status_code == 404


def test_jobs_are_chosen_for_the_comparison(app: FastAPI, store: Store) -> None:
    job = put_job(store, "alice")
    browser = logged_in(app, store, "alice")
    assert f'href="/dashboard/jobs/compare?a={job.job_id}"' in browser.get(f"/dashboard/jobs/{job.job_id}").text
    chosen = browser.get(f"/dashboard/jobs/compare?a={job.job_id}").text
    assert f'<option value="{job.job_id}" selected>' in chosen
    assert "Results" not in chosen


def test_measure_job_is_cloned_without_a_search(app: FastAPI, store: Store) -> None:
    spec = put_job(store, "alice").spec.model_copy(update={"kind": "measure"})
    job = store.jobs.create("alice", spec)
    browser = logged_in(app, store, "alice")
    form = browser.get(f"/dashboard/jobs/{job.job_id}/copy").text
    assert "More trials" not in form
    assert 'name="strategy"' not in form
    (once,) = once_keys(browser, job.job_id)
    answer = browser.submit(
        f"/dashboard/jobs/{job.job_id}/clone", {"form_key": browser.form_key(), "once": once, "labels": "again=1"}
    )
    made = store.jobs.get("alice", answer.headers["location"].rpartition("/")[2])
    assert (made.spec.kind, made.spec.labels) == ("measure", {"again": "1"})
