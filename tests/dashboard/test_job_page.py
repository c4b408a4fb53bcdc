"""What the page of a job says about seconds, failures and a built model."""

import re

import pytest
from fastapi import FastAPI

from tests.api.stored import Belongings, furnished
from tests.dashboard.viewers import Viewer, logged_in
from tests.service.space.stored_space import put_space
from tests.store.sample import failed
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Stopped
from tunefarm_schemas.views.jobs.summary import MODEL_BUILT, JobSummary, Progress
from tunefarm_services.dashboard.drawings.time_bars import time_bars
from tunefarm_services.store import Store

SECONDS = {"total": 100.0, "start": 5.0, "verify": 20.0, "build": 60.0, "wait": 10.0, "run": 30.0, "search": 4.0}


@pytest.fixture
def browser(app: FastAPI, store: Store) -> Viewer:
    return logged_in(app, store, "alice")


def summary(mine: Belongings) -> dict[str, object]:
    found = JobSummary(job_id=mine.job_id, outcome=None, message="", tasks=(), seconds=SECONDS)
    return found.model_dump(mode="json")


def test_wall_and_lane_time_are_divided_into_their_parts() -> None:
    wall, lanes = time_bars(SECONDS, 100.0)
    assert [(part.name, part.seconds) for part in wall.parts] == [("start", 5.0), ("search", 75.0), ("verify", 20.0)]
    assert [(part.name, part.share) for part in lanes.parts] == [("build", 0.6), ("wait", 0.1), ("run", 0.3)]
    assert lanes.parts[1].x == pytest.approx(lanes.parts[0].width, abs=0.1)
    assert time_bars({}, None) == []
    assert [bar.name for bar in time_bars({"start": 1.0}, 4.0)] == ["wall time"]
    assert time_bars({"start": -1.0, "verify": 9.0}, 4.0)[0].parts[1].seconds == 0.0


def test_the_page_shows_where_the_seconds_went_while_it_runs_and_after(browser: Viewer, store: Store) -> None:
    mine = furnished(store, "alice")
    progress = Progress(
        stage="searching",
        task_name="matmul",
        elapsed_s=40.0,
        trials_done=7,
        trials_budget=10,
        best_latency_s=3e-3,
        untuned_latency_s=6e-3,
        trials_per_s=7.0,
        seconds_left=65.0,
        failures={"run_timeout": 2},
        seconds={"start": 10.0, "verify": 0.0, "build": 9.0, "run": 3.0},
    )
    store.events.append(mine.lease, "progress", progress.model_dump(mode="json"))
    running = browser.get(f"/dashboard/jobs/{mine.job_id}").text
    assert "search 0:30 (75%)" in running
    assert "build 0:09 (75%)" in running
    store.events.append(mine.lease, "summary", summary(mine))
    ended = browser.get(f"/dashboard/jobs/{mine.job_id}").text
    assert "verify 0:20 (20%)" in ended
    assert "run 0:30 (30%)" in ended


def test_failures_lead_to_their_trials(browser: Viewer, store: Store) -> None:
    mine = furnished(store, "alice")
    mine.bench.measure(2, failed(FailureReason.RUN_TIMEOUT))
    progress = {"stage": "searching", "task_name": "", "elapsed_s": 1.0, "trials_done": 3, "trials_budget": 9}
    progress |= {"best_latency_s": None, "untuned_latency_s": None, "trials_per_s": 1.0, "seconds_left": None}
    store.events.append(mine.lease, "progress", progress | {"failures": {"run_timeout": 1, "crash": 1}})
    page = browser.get(f"/dashboard/jobs/{mine.job_id}")
    links = re.findall(r'href="([^"]+/trials\?reason=[a-z_]+)"', page.text)
    assert links == [f"{mine.job_id}/trials?reason=crash", f"{mine.job_id}/trials?reason=run_timeout"]
    trials = browser.get(f"/dashboard/jobs/{links[1]}").text
    assert re.findall(r'<th scope="row" class="number">(\d+)</th>', trials) == ["2"]
    assert 'aria-current="true">run_timeout</a>' in trials
    assert browser.get(f"/dashboard/jobs/{mine.job_id}/trials?reason=boredom").status_code == 400


def test_pages_of_a_reason_keep_it(browser: Viewer, store: Store) -> None:
    mine = furnished(store, "alice")
    for number in range(2, 60):
        mine.bench.measure(number, failed(FailureReason.RUN_TIMEOUT))
    first = browser.get(f"/dashboard/jobs/{mine.job_id}/trials?reason=run_timeout").text
    following = re.search(r'href="([^"]+)">Next page', first)
    assert following is not None
    second = browser.get(following[1].replace("&amp;", "&")).text
    assert re.findall(r'<th scope="row" class="number">(\d+)</th>', second) == [str(n) for n in range(52, 60)]


def test_the_chart_has_stopped_trials_too(browser: Viewer, store: Store) -> None:
    mine = furnished(store, "alice")
    mine.bench.measure(2, Stopped(at_least_s=5e-3))
    chart = browser.get(f"/dashboard/jobs/{mine.job_id}/chart?exploration={mine.exploration_id}").json()
    assert chart["stopped"] == [[2, 5e-3, 0.5]]
    assert chart["sample"] == [[0, 2e-3, 0.5]]
    assert chart["end"] == 3


def test_a_stopped_trial_is_listed_with_the_time_that_it_takes_at_least(browser: Viewer, store: Store) -> None:
    mine = furnished(store, "alice")
    mine.bench.measure(2, Stopped(at_least_s=5e-3))
    page = browser.get(f"/dashboard/jobs/{mine.job_id}/trials?exploration={mine.exploration_id}").text
    assert '<td class="number">at least 5 ms</td>' in page


def test_a_built_model_shows_the_plans_that_were_timed(browser: Viewer, store: Store) -> None:
    mine = furnished(store, "alice")
    plans = [
        {"plan": "tuned kernels only", "latency_s": 2e-3, "problem": ""},
        {"plan": "onnxruntime", "problem": "<b>"},
    ]
    figures = {"untried_s": 4e-3, "tuned_s": 2e-3, "libraries": {"winner": "tuned kernels only", "plans": plans}}
    store.events.append_unleased("alice", mine.job_id, MODEL_BUILT, figures)
    text = browser.get(f"/dashboard/jobs/{mine.job_id}").text
    assert "tuned kernels only, ships" in text
    assert "&lt;b&gt;" in text
    assert text.count(">2x</td>") == 2
    store.events.append_unleased("alice", mine.job_id, MODEL_BUILT, {"untried_s": "slow"})
    unreadable = browser.get(f"/dashboard/jobs/{mine.job_id}")
    assert unreadable.status_code == 200
    assert "times of the model" not in unreadable.text


def test_the_page_leads_to_the_space_of_the_shown_task(browser: Viewer, store: Store) -> None:
    mine = furnished(store, "alice")
    put_space(mine.bench, 40, first_number=2)
    text = browser.get(f"/dashboard/jobs/{mine.job_id}").text
    link = re.search(r'href="([^"]+/space\?task=0)"', text)
    assert link is not None
    assert browser.get(link[1]).status_code == 200
