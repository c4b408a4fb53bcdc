"""What the pages show, to whom, and what their buttons do."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi import FastAPI

from tests.api.people import caller_of
from tests.api.stored import furnished, lane, put_job
from tests.dashboard.viewers import logged_in, viewer
from tests.store.sample import failed, timing
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.farm.lane import LaneRequest
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_schemas.views.jobs.summary import Progress
from tunefarm_services.dashboard.job import job_feed
from tunefarm_services.store import Store

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"


@pytest.fixture
def brief_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams look at their sessions at once, and wait for no summary of a canceled job."""
    for name in ("SESSION_LOOK_S", "WAKE_S", "CANCELED_WAIT_S"):
        monkeypatch.setattr(job_feed, name, 0.1)


def test_every_page_shows_the_tenants_own_things_and_no_others(app: FastAPI, store: Store) -> None:
    mine, theirs = furnished(store, "alice"), furnished(store, "bob")
    browser = logged_in(app, store, "alice")
    for path in (
        "/",
        "/jobs",
        f"/jobs/{mine.job_id}",
        f"/jobs/{mine.job_id}/trials?exploration={mine.exploration_id}",
        f"/jobs/{mine.job_id}/chart?exploration={mine.exploration_id}",
        f"/jobs/{mine.job_id}/timeline?exploration={mine.exploration_id}",
        "/records",
        f"/records/{mine.record_id}",
        f"/records/{mine.record_id}?show=artifact",
        f"/artifacts/{mine.artifact_id}/manifest",
        f"/artifacts/{mine.artifact_id}/library",
        "/devices",
    ):
        answer = browser.get(f"/dashboard{path}")
        assert answer.status_code == 200, path
        assert "bob" not in answer.text, path
    for path in (
        f"/jobs/{theirs.job_id}",
        f"/jobs/{theirs.job_id}/live",
        f"/jobs/{theirs.job_id}/actions",
        f"/jobs/{mine.job_id}/trials?exploration={theirs.exploration_id}",
        f"/jobs/{mine.job_id}/chart?exploration={theirs.exploration_id}",
        f"/records/{theirs.record_id}",
        f"/records/{theirs.record_id}?show=diff",
        f"/records/{theirs.record_id}/code/python",
        f"/records/{theirs.record_id}/trace",
        f"/artifacts/{theirs.artifact_id}/manifest",
        f"/artifacts/{theirs.artifact_id}/library",
    ):
        assert browser.get(f"/dashboard{path}").status_code == 404, path
    key = browser.form_key()
    assert browser.submit(f"/dashboard/jobs/{theirs.job_id}/cancel", {"form_key": key}).status_code == 404


def test_pages_load_nothing_from_elsewhere_and_cannot_be_framed(app: FastAPI, store: Store) -> None:
    page = logged_in(app, store, "alice").get("/dashboard/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["cache-control"] == "no-store"
    assert "https://" not in page.text
    assert "<style" not in page.text
    assert " style=" not in page.text


def test_assets_are_cached_for_ever_and_change_their_address_with_their_content(app: FastAPI, store: Store) -> None:
    browser = logged_in(app, store, "alice")
    page = browser.get(f"/dashboard/jobs/{furnished(store, 'alice').job_id}").text
    paths = [part.split('"')[0] for part in page.split('src="')[1:]]
    assert len(paths) == 5
    for path in paths:
        answer = browser.get(path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert browser.get("/dashboard/assets/0/..%2f..%2fapp.py").status_code == 404


def test_content_without_secrets_is_compressed_for_those_who_accept_it(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    browser = logged_in(app, store, "alice")
    page = f"/dashboard/jobs/{mine.job_id}"
    script = browser.get(page).text.split('src="')[1].split('"')[0]
    for path in (script, f"{page}/chart?exploration={mine.exploration_id}"):
        plain = browser.get(path, headers={"Accept-Encoding": "identity"})
        compressed = browser.get(path, headers={"Accept-Encoding": "br, gzip"})
        assert "content-encoding" not in plain.headers
        assert compressed.headers["content-encoding"] == "gzip"
        assert compressed.content == plain.content
        assert plain.headers["vary"] == compressed.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in browser.get(page, headers={"Accept-Encoding": "gzip"}).headers


def test_hostile_text_is_shown_and_not_run(app: FastAPI, store: Store) -> None:
    job = put_job(store, HOSTILE)
    browser = logged_in(app, store, HOSTILE)
    for path in ("/", "/jobs", f"/jobs/{job.job_id}"):
        text = browser.get(f"/dashboard{path}").text
        assert "&lt;script&gt;" in text, path
        assert "<script>alert" not in text, path
        assert "<img" not in text, path
        assert "{{7*7}}" in text, path


def test_trials_are_listed_by_pages_with_their_reasons(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    for number in range(2, 60):
        mine.bench.measure(number, timing(1e-3) if number % 2 else failed(FailureReason.RUN_TIMEOUT))
    browser = logged_in(app, store, "alice")
    address = f"/dashboard/jobs/{mine.job_id}/trials?exploration={mine.exploration_id}"
    first, second = browser.get(address).text, browser.get(f"{address}&after=49").text
    assert first.count("<tr>") == 51
    assert second.count("<tr>") == 11
    assert "after=49" in first
    assert "Next page" not in second
    only_failed = browser.get(f"{address}&failed=1").text
    assert only_failed.count("run_timeout") == 29
    assert "1 ms" not in only_failed


def test_buttons_fit_the_state_of_the_job_and_change_it(app: FastAPI, store: Store) -> None:
    job = put_job(store, "alice")
    browser = logged_in(app, store, "alice")
    address = f"/dashboard/jobs/{job.job_id}"
    assert _buttons(browser.get(address).text) == ["Pause", "Cancel"]
    answer = browser.submit(f"{address}/pause", {"form_key": browser.form_key()})
    assert answer.headers["location"] == address
    assert _buttons(browser.get(f"{address}/actions").text) == ["Resume", "Finish now", "Cancel"]
    browser.submit(f"{address}/cancel", {"form_key": browser.form_key()})
    assert _buttons(browser.get(f"{address}/actions").text) == []
    again = browser.submit(f"{address}/pause", {"form_key": browser.form_key()})
    assert again.status_code == 409


def test_a_reader_has_no_buttons(app: FastAPI, store: Store) -> None:
    job = put_job(store, "alice")
    reader = logged_in(app, store, "alice", (Scope.JOBS_READ,))
    assert _buttons(reader.get(f"/dashboard/jobs/{job.job_id}").text) == []
    answer = reader.submit(f"/dashboard/jobs/{job.job_id}/cancel", {"form_key": reader.form_key()})
    assert answer.status_code == 403


def test_only_the_operator_sees_hosts_and_asks_devices(app: FastAPI, store: Store) -> None:
    store.lanes.put(lane())
    reader = logged_in(app, store, "alice", (Scope.JOBS_READ, Scope.DEVICES_READ))
    operator = logged_in(app, store, "operator")
    assert "secret-host" not in reader.get("/dashboard/devices").text
    page = operator.get("/dashboard/devices").text
    assert "secret-host" in page
    path = page.split('action="')[2].split('"')[0]
    assert path.endswith("/drain")
    assert reader.submit(path, {"form_key": reader.form_key()}).status_code == 403
    assert operator.submit(path, {"form_key": operator.form_key()}).status_code == 303
    assert store.lanes.requests() == {lane().lane_id: LaneRequest.DRAIN}


def test_the_chart_of_many_trials_stays_small_and_keeps_the_best(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    for number in range(2, 40):
        mine.bench.measure(number, timing(1e-3 * (50 - number)))
    points = store.points.of_exploration("alice", mine.exploration_id, 10)
    assert points.end == 40
    assert len(points.sample) <= 10
    assert points.best[-1][1] == pytest.approx(2e-3)
    assert points.failures == {"crash": 1}
    latencies = [latency_s for _, latency_s in points.best]
    assert latencies == sorted(latencies, reverse=True)


def test_viewers_share_a_chart_until_the_job_ends(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    path = f"/dashboard/jobs/{mine.job_id}/chart?exploration={mine.exploration_id}"
    first, second = logged_in(app, store, "alice"), logged_in(app, store, "alice")
    before = first.get(path).json()
    assert before["end"] == 2
    mine.bench.measure(2, timing(1e-3))
    assert second.get(path).json() == before
    store.jobs.set_state(mine.lease, JobState.FINISHED, JobOutcome.SUCCEEDED, "")
    assert second.get(path).json()["end"] == 3


def test_the_timeline_has_every_stage_of_every_attempt(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    browser = logged_in(app, store, "alice")
    answer = browser.get(f"/dashboard/jobs/{mine.job_id}/timeline?exploration={mine.exploration_id}")
    assert answer.headers["content-disposition"].endswith('.perfetto.json"')
    events = json.loads(answer.text)["traceEvents"]
    names = [event["name"] for event in events if event["name"].startswith("candidate")]
    assert sorted(names) == ["candidate 0", "candidate 1"]
    assert all(event["ph"] == "X" and event["dur"] >= 0 and event["ts"] >= 0 for event in events)


@pytest.mark.usefixtures("brief_waits")
def test_the_stream_brings_a_page_up_to_date_and_ends_with_the_job(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    progress = Progress(
        stage="searching",
        task_name="matmul",
        elapsed_s=1.0,
        trials_done=7,
        trials_budget=10,
        best_latency_s=3e-3,
        untuned_latency_s=6e-3,
        trials_per_s=7.0,
        seconds_left=1.0,
    )
    store.events.append(mine.lease, "progress", progress.model_dump(mode="json"))
    browser = logged_in(app, store, "alice")
    page = browser.get(f"/dashboard/jobs/{mine.job_id}").text
    assert "7 of 10" in page
    shown = page.split("/live?after=")[1].split('"')[0]
    store.job_requests.cancel("alice", mine.job_id)
    store.leases.release(mine.lease)
    stream = browser.get(f"/dashboard/jobs/{mine.job_id}/live?after={shown}")
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert _kinds(stream.text) == ["status", "state", "done"]
    assert "canceled" in stream.text
    last = stream.text.split("id: ")[-1].splitlines()[0]
    again = browser.get(f"/dashboard/jobs/{mine.job_id}/live", headers={"Last-Event-ID": last})
    assert "event: status" not in again.text


@pytest.mark.usefixtures("brief_waits")
@pytest.mark.parametrize("ending", ["revoke", "rotate"])
def test_a_stream_ends_with_its_session(app: FastAPI, store: Store, ending: str) -> None:
    job = put_job(store, "alice")
    _, administrator = store.tokens.create("alice", "administrator", tuple(Scope))
    browser = logged_in(app, store, "alice")
    with ThreadPoolExecutor(1) as thread:
        stream = thread.submit(browser.get, f"/dashboard/jobs/{job.job_id}/live")
        answer = caller_of(app, f"Bearer {administrator}").post(f"/v1/tokens/{browser.token_id}:{ending}")
        assert answer.is_success, answer.text
        text = stream.result().text
    assert "Your session has ended." in text
    assert _kinds(text)[-2:] == ["session", "done"]
    assert _kinds(viewer(app).get(f"/dashboard/jobs/{job.job_id}/live").text) == ["session", "done"]


@pytest.mark.usefixtures("brief_waits")
def test_a_tenant_has_a_limit_of_streams(app_with: Callable[..., FastAPI], store: Store) -> None:
    app = app_with(streams_per_tenant=1)
    job = put_job(store, "alice")
    browser, other = logged_in(app, store, "alice"), logged_in(app, store, "bob")
    path = f"/dashboard/jobs/{job.job_id}/live"
    with ThreadPoolExecutor(1) as thread:
        stream = thread.submit(browser.get, path)
        while app.state.parts.streams["alice"] == 0:
            time.sleep(0.01)
        refused = browser.get(path)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        theirs = put_job(store, "bob")
        store.job_requests.cancel("bob", theirs.job_id)
        assert other.get(f"/dashboard/jobs/{theirs.job_id}/live").status_code == 200
        store.job_requests.cancel("alice", job.job_id)
        assert _kinds(stream.result().text)[-1] == "done"
    assert app.state.parts.streams == {}


def test_a_part_of_a_page_is_left_as_it_is_without_a_session(app: FastAPI, store: Store) -> None:
    job = put_job(store, "alice")
    answer = viewer(app).get(f"/dashboard/jobs/{job.job_id}/actions", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.text) == (204, "")


def _kinds(stream: str) -> list[str]:
    return [line.removeprefix("event: ") for line in stream.splitlines() if line.startswith("event: ")]


def _buttons(text: str) -> list[str]:
    return [part.split("<")[0] for part in text.split('<button type="submit">')[1:] if not part.startswith("Log out")]
