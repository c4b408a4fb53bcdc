"""The page on a job, from figures that are made here."""

import re
from pathlib import Path

import pytest

from tunefarm.report import plots
from tunefarm.report.job_report import JobReport, Step, TaskReport, pair_accuracy
from tunefarm.report.page import render_page
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.job import Effort, Job, JobOutcome, JobSpec, JobState, StopReason
from tunefarm_schemas.workload import Task
from tunefarm_services.tuner.summary import TaskSummary


@pytest.fixture(autouse=True)
def matplotlib_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    plots.prepare_matplotlib(tmp_path_factory.getbasetemp())


def report_of(name: str, *, message: str = "") -> JobReport:
    summary = TaskSummary(
        name=name,
        exploration_id="e",
        best_latency_s=1e-5,
        untuned_latency_s=1e-3,
        interval_s=(9e-6, 1.1e-5),
        record_id="r",
        artifact_id="a",
        trials=40,
        trials_in_store=40,
        stop_reason=StopReason.TRIALS,
        improvements=(),
        failures={"crash": 2},
        first_failure_message=message,
        answered_from_store=False,
    )
    job = Job(
        job_id="0123",
        tenant="local",
        spec=JobSpec(
            tasks=(Task(workload_id="w", target_id="t", name=name),),
            effort=Effort(trials=40),
            protocol_id="cpu-hot-cache/1",
        ),
        state=JobState.FINISHED,
        outcome=JobOutcome.SUCCEEDED,
        message="",
        created_at=utc_now(),
        finished_at=utc_now(),
    )
    task = TaskReport(
        name=name,
        summary=summary,
        target='{"kind":"llvm"}',
        steps=(Step(elapsed_s=1.0, trials=1, latency_s=1e-4), Step(elapsed_s=2.0, trials=9, latency_s=1e-5)),
        trials=((1, 1e-4), (9, 1e-5), (12, 3e-5)),
        failures={"crash": 2},
        accuracy=((16, 0.6), (24, 0.8)),
    )
    return JobReport(job=job, tasks=(task,), seconds={"total": 3.0, "build": 2.0, "run": 0.5}, numpy_latency_s=2e-5)


def test_the_page_shows_every_plot_and_needs_nothing_else() -> None:
    page = render_page(report_of("matmul"))
    for title in ("over time", "over trials", "Failures by reason", "cost model", "Where the seconds went"):
        assert title in page
    assert page.count("<svg") == 5
    assert not re.search(r"<script|<link|<img|@import|src=", page)


def test_what_there_is_nothing_to_draw_of_is_said_in_words() -> None:
    report = report_of("matmul")
    empty = report.tasks[0].model_copy(update={"steps": (), "trials": (), "failures": {}, "accuracy": ()})
    page = render_page(report.model_copy(update={"tasks": (empty,), "seconds": {"total": 3.0}}))
    for words in ("No trial failed.", "Too few trials", "Nothing was measured."):
        assert words in page
    assert page.count("<svg") == 2


def test_a_page_on_several_tasks_has_a_part_for_each() -> None:
    report = report_of("first")
    second = report.tasks[0].model_copy(update={"name": "second"})
    page = render_page(report.model_copy(update={"tasks": (report.tasks[0], second)}))
    assert "first and 1 more" in page
    assert "<h2>second</h2>" in page


def test_each_plot_says_what_it_shows_to_those_who_do_not_see_it() -> None:
    assert render_page(report_of("matmul")).count('role="img" aria-label="') == 5


def test_nothing_of_a_user_is_markup() -> None:
    page = render_page(report_of("<script>alert(1)</script>", message="<img src=x onerror=alert(1)>"))
    assert "<script" not in page
    assert "<img" not in page


@pytest.mark.parametrize("name", ["$x", r"\frac{", "名前", "a" * 300])
def test_any_name_can_be_drawn(name: str) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fonts may lack a sign; the drawing stands
        assert "<svg" in render_page(report_of(name))


def test_a_plot_is_a_picture(tmp_path: Path) -> None:
    report = report_of("matmul")
    image = plots.as_png(plots.latency_over_time(report.tasks[0], 3.0, 2e-5))
    assert image.startswith(b"\x89PNG")


def test_pair_accuracy_is_the_share_of_pairs_in_the_right_order() -> None:
    assert pair_accuracy([(3.0, 1.0), (2.0, 2.0), (1.0, 3.0)]) == 1.0
    assert pair_accuracy([(1.0, 1.0), (2.0, 2.0)]) == 0.0
    assert pair_accuracy([]) == 0.5
