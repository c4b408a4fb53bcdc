"""The page of a job: it follows the job, its buttons act, and it goes on after the API was killed."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.api.stored import lane, put_job
from tests.browser.page_list import Shown
from tests.browser.visits import Visits, wait_until
from tests.servers.real_service import RealService
from tests.store.sample import Bench, exploration_key, timing
from tunefarm_schemas.farm.lane import LaneRequest
from tunefarm_schemas.tuning.job import Job, JobOutcome, JobState
from tunefarm_schemas.views.jobs.summary import Improvement, JobSummary, Progress, TaskSummary
from tunefarm_services.store import Lease, Store
from tunefarm_services.store.stored import JobRequest

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

TENANT = "team"


@dataclass(frozen=True)
class RunningJob:
    """A job that the test runs, as a tuner does: by writing to the store under a lease."""

    store: Store
    job: Job
    lease: Lease
    bench: Bench

    @classmethod
    def begin(cls, store: Store, text: str, job: Job | None = None) -> "RunningJob":
        job = job or put_job(store, TENANT, text)
        lease = store.leases.acquire(TENANT, job.job_id, "test", 3600.0)
        assert lease is not None
        store.jobs.set_state(lease, JobState.RUNNING, None, "")
        exploration = store.explorations.open(lease, exploration_key(f"{text} of {TENANT}", tenant=TENANT))
        assert store.explorations.hold(lease, exploration.exploration_id)
        return cls(store, job, lease, Bench(store, lease, exploration.exploration_id))

    def measure(self, trials: int, of: int = 10) -> None:
        """Measure the trial with this number, and report it."""
        self.bench.measure(trials, timing(1e-3 / trials))
        progress = Progress(
            stage="searching",
            task_name="matmul",
            elapsed_s=float(trials),
            trials_done=trials,
            trials_budget=of,
            best_latency_s=1e-3 / trials,
            untuned_latency_s=6e-3,
            trials_per_s=1.0,
            seconds_left=float(of - trials),
        )
        self.store.events.append(self.lease, "progress", progress.model_dump(mode="json"))

    def finish(self) -> None:
        self.store.jobs.set_state(self.lease, JobState.FINISHED, JobOutcome.SUCCEEDED, "")
        self.store.events.append(self.lease, "summary", self._summary().model_dump(mode="json"))
        self.store.leases.release(self.lease)

    def _summary(self) -> JobSummary:
        task = TaskSummary(
            name="matmul",
            exploration_id=self.bench.exploration_id,
            best_latency_s=5e-4,
            untuned_latency_s=6e-3,
            interval_s=None,
            record_id=None,
            artifact_id=None,
            trials=2,
            trials_in_store=2,
            stop_reason=None,
            improvements=(Improvement(elapsed_s=1.0, trials=1, latency_s=5e-4, trace=""),),
            failures={},
            first_failure_message="",
            answered_from_store=False,
        )
        outcome = JobOutcome.SUCCEEDED
        return JobSummary(job_id=self.job.job_id, outcome=outcome, message="", tasks=(task,), seconds={"total": 2.0})


def test_a_job_is_shown_from_its_start_to_its_results_as_it_runs(visits: Visits) -> None:
    job = put_job(visits.store, TENANT, "live")
    page = visits.page(TENANT)
    page.goto(visits.address(f"/jobs/{job.job_id}"))
    assert page.locator("#by-trial").count() == 0
    running = RunningJob.begin(visits.store, "live", job)
    running.measure(1)
    page.wait_for_selector("#status >> text=1 of 10")
    page.wait_for_selector("#by-trial canvas")
    running.measure(2)
    page.wait_for_selector("#status >> text=2 of 10")
    assert "500 us" in page.inner_text("#status")
    assert page.get_attribute("progress", "value") == "2"
    page.wait_for_selector("#by-time canvas")
    assert page.locator("#actions button").all_inner_texts() == ["Pause", "Finish now", "Cancel"]
    running.finish()
    page.wait_for_selector("#results")
    page.wait_for_selector("#by-trial canvas")
    assert "succeeded" in page.inner_text("#status")
    page.wait_for_selector("#actions button", state="detached")


def test_every_button_of_a_job_does_what_it_says(visits: Visits) -> None:
    job = put_job(visits.store, TENANT, "buttons")
    page = visits.page(TENANT)
    page.goto(visits.address(f"/jobs/{job.job_id}"))
    for button, state in (
        ("Pause", JobState.PAUSED),
        ("Resume", JobState.QUEUED),
        ("Pause", JobState.PAUSED),
        ("Finish now", JobState.QUEUED),
        ("Cancel", JobState.FINISHED),
    ):
        page.click(f"#actions >> text={button}")
        page.wait_for_load_state()
        assert page.url.endswith(job.job_id)
        assert visits.store.jobs.get(TENANT, job.job_id).state is state, button
    assert page.locator("#actions button").count() == 0
    assert "canceled" in page.inner_text("#status")


def test_a_button_reaches_the_tuner_of_a_running_job(visits: Visits) -> None:
    running = RunningJob.begin(visits.store, "requested")
    page = visits.page(TENANT, has_scripts=False)
    page.goto(visits.address(f"/jobs/{running.job.job_id}"))
    page.click("#actions >> text=Finish now")
    assert visits.store.job_requests.pending(TENANT, running.job.job_id) is JobRequest.FINISH
    running.finish()


@pytest.mark.faults
def test_every_button_of_a_device_asks_its_lanes(visits: Visits, shown: Shown) -> None:
    page = visits.page(TENANT)
    page.goto(visits.address("/devices"))
    for request in (each for each in LaneRequest if each is not LaneRequest.NONE):
        page.click(f"section:has-text('secret-host') >> text={request.value.capitalize()}")
        page.wait_for_load_state()
        assert visits.store.lanes.requests()[lane().lane_id] is request


@pytest.mark.faults
def test_a_page_goes_on_after_the_api_was_killed(visits: Visits, service: RealService) -> None:
    running = RunningJob.begin(visits.store, "killed")
    page = visits.page(TENANT)
    page.goto(visits.address(f"/jobs/{running.job.job_id}"))
    running.measure(1)
    page.wait_for_selector("#status >> text=1 of 10")
    page.evaluate("window.isTheSamePage = true")
    service.kill()
    running.measure(2)
    service.start()
    page.wait_for_selector("#status >> text=2 of 10")
    running.measure(3)
    page.wait_for_selector("#status >> text=3 of 10")
    assert page.evaluate("window.isTheSamePage")
    running.finish()
    page.wait_for_selector("#status >> text=succeeded")
    visits.forget_lost_connections()


def test_everything_can_be_done_with_the_keyboard(visits: Visits, shown: Shown) -> None:
    job = put_job(visits.store, TENANT, "keyboard")
    page = visits.page(TENANT)
    page.goto(visits.address("/"))
    page.keyboard.press("Tab")
    assert _focused(page) == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    page.goto(visits.address("/"))
    _tab_to(page, "Jobs")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs")
    _tab_to(page, job.job_id[:12])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{job.job_id}")
    _tab_to(page, "Pause")
    page.keyboard.press("Space")
    wait_until(page, lambda: visits.store.jobs.get(TENANT, job.job_id).state is JobState.PAUSED)


def _tab_to(page: "Page", text: str) -> None:
    """Press Tab until the element with this text has the focus. Each on the way shows that it has it."""
    passed: list[str] = []
    while _focused(page) != text:
        page.keyboard.press("Tab")
        passed.append(_focused(page))
        assert len(passed) < 100, passed
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid", f"the focus on {passed[-1]!r} is invisible"


def _focused(page: "Page") -> str:
    text = page.evaluate("document.activeElement === document.body ? '' : document.activeElement.innerText")
    return re.sub(r"\s+", " ", str(text)).strip()
