"""The page of a model: its waterfall, and predicted beside measured times."""

import re

import pytest
from fastapi import FastAPI

from tests.api.stored import put_job
from tests.dashboard.model_jobs import BUILT, ROOFLINE, ended, model_job, task
from tests.dashboard.viewers import Viewer, logged_in
from tests.store.sample import exploration_key
from tunefarm_schemas.views.jobs.progress import TaskTime
from tunefarm_schemas.views.jobs.summary import Progress
from tunefarm_services.store import Store

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"


def words(browser: Viewer, path: str) -> str:
    """The text of a page, without tags."""
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    assert " style=" not in answer.text
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


def test_model_page_shows_each_function_with_its_roofline_library_and_winner(app: FastAPI, store: Store) -> None:
    job, lease = model_job(store)
    ended(store, lease, (task("dense"), task("conv", roofline=ROOFLINE)), BUILT)
    browser = logged_in(app, store, "alice")
    shown = words(browser, f"/dashboard/jobs/{job.job_id}/model")
    conv = "conv 4 400 us 80% 1 ms 200 us 100 us 90 us onnxruntime 50 us 50% reached compute onnxruntime record-of-co"
    assert conv in shown
    assert "dense 1 100 us 20% 1 ms 200 us 100 us - - - search record-of-de" in shown
    assert "Sum of calls 5 500 us 5 ms 1 ms 500 us -" in shown
    page = browser.get(f"/dashboard/jobs/{job.job_id}/model").text
    assert 'href="/dashboard/records/record-of-conv"' in page
    assert f"/dashboard/jobs/{job.job_id}/model" in browser.get(f"/dashboard/jobs/{job.job_id}").text


def test_model_page_draws_what_each_function_saves(app: FastAPI, store: Store) -> None:
    job, lease = model_job(store)
    ended(store, lease, (task("dense", roofline=ROOFLINE), task("conv", roofline=ROOFLINE)), BUILT)
    browser = logged_in(app, store, "alice")
    page = browser.get(f"/dashboard/jobs/{job.job_id}/model").text
    assert re.findall(r'<svg class="bar (\w+)"', page) == [
        "before", "saved", "saved", "after", "roofline", "measured", "measured",
    ]  # fmt: skip
    assert re.findall(r'<rect x="([\d.]+)%" y="1" width="([\d.]+)%"', page)[:2] == [
        ("0.000", "83.333"),
        ("50.000", "33.333"),
    ]
    shown = words(browser, f"/dashboard/jobs/{job.job_id}/model")
    assert "conv saves 400 us dense saves 100 us predicted, tuned 500 us roofline 250 us" in shown


def test_model_page_sets_predicted_beside_measured_times(app: FastAPI, store: Store) -> None:
    job, lease = model_job(store)
    ended(store, lease, (task("dense"), task("conv")), BUILT)
    shown = words(logged_in(app, store, "alice"), f"/dashboard/jobs/{job.job_id}/model")
    assert "Predicted, sum of calls 1 ms 500 us 2x" in shown
    assert "Measured, warm caches 1.2 ms (550 us to 700 us) 600 us (550 us to 700 us) 2x" in shown
    assert "Measured, cold caches 900 us (800 us to 1 ms)" in shown
    assert "The tuned build ships, within tolerance of the framework" in shown


@pytest.mark.parametrize(("is_over", "reason"), [(True, "The model was not built."), (False, "when its job ends.")])
def test_model_page_says_why_there_is_no_measured_time(app: FastAPI, store: Store, is_over: bool, reason: str) -> None:
    job, lease = model_job(store)
    if is_over:
        ended(store, lease, (task("dense"), task("conv")), None)
    assert reason in words(logged_in(app, store, "alice"), f"/dashboard/jobs/{job.job_id}/model")


def test_model_page_of_a_running_job_shows_its_progress(app: FastAPI, store: Store) -> None:
    job, lease = model_job(store)
    times = tuple(
        TaskTime(name=name, weight=2, trials=3, untried_latency_s=2e-4, best_latency_s=1e-4, share=0.5)
        for name in ("conv", "dense")
    )
    progress = Progress(
        stage="searching", task_name="conv", elapsed_s=1.0, trials_done=6, trials_budget=10, best_latency_s=1e-4,
        untuned_latency_s=None, trials_per_s=6.0, seconds_left=None, failures={}, tasks=times,
    )  # fmt: skip
    store.events.append(lease, "progress", progress.model_dump(mode="json"))
    shown = words(logged_in(app, store, "alice"), f"/dashboard/jobs/{job.job_id}/model")
    assert "conv 2 200 us 50% - 200 us 100 us" in shown
    assert "Predicted time of the model 400 us, 2x faster than without a trial" in shown


def test_hostile_names_of_functions_are_text(app: FastAPI, store: Store) -> None:
    job, lease = model_job(store, (HOSTILE, "conv"))
    ended(store, lease, (task(HOSTILE), task("conv")), BUILT)
    page = logged_in(app, store, "alice").get(f"/dashboard/jobs/{job.job_id}/model").text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "{{7*7}}" in page


def test_other_tenants_and_other_jobs_have_no_model_page(app: FastAPI, store: Store) -> None:
    job, _ = model_job(store)
    assert logged_in(app, store, "bob").get(f"/dashboard/jobs/{job.job_id}/model").status_code == 404
    alone = put_job(store, "alice")
    answer = logged_in(app, store, "alice").get(f"/dashboard/jobs/{alone.job_id}/model")
    assert answer.status_code == 404
    assert "not one of a model" in answer.text


def test_the_chart_of_a_function_has_the_fastest_library(app: FastAPI, store: Store) -> None:
    job, lease = model_job(store)
    exploration = store.explorations.open(lease, exploration_key("a model's function", tenant="alice"))
    summary = task("conv").model_copy(update={"exploration_id": exploration.exploration_id})
    ended(store, lease, (summary,), BUILT)
    browser = logged_in(app, store, "alice")
    chart = browser.get(f"/dashboard/jobs/{job.job_id}/chart?exploration={exploration.exploration_id}").json()
    assert (chart["library"], chart["library_s"]) == ("onnxruntime", 9e-5)
