"""The report page, from synthetic figures."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.command import HANG_S
from tunefarm.confined.record_view import RecordView
from tunefarm.report import plots
from tunefarm.report.job_report import JobReport, TaskReport
from tunefarm.report.page import render_page
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.tuning.job import Effort, Job, JobOutcome, JobSpec, JobState, StopReason
from tunefarm_schemas.tuning.workload import Task
from tunefarm_schemas.views.jobs.job import CoursePoint
from tunefarm_schemas.views.jobs.summary import ModelAccuracy, TaskSummary


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
        steps=(
            CoursePoint(trials=1, elapsed_s=1.0, latency_s=1e-4),
            CoursePoint(trials=9, elapsed_s=2.0, latency_s=1e-5),
        ),
        trials=((1, 1e-4), (9, 1e-5), (12, 3e-5)),
        failures={"crash": 2},
        accuracy=(
            ModelAccuracy(known=16, new=8, pairs=50, share=0.8),
            ModelAccuracy(known=40, new=24, pairs=150, share=0.9),
        ),
        floating_point_operations=2e6,
        processor="A Processor, 2 cores",
        code_generator="tvm-0.27.0+llvm-22.1",
        schedule=RecordView(script="def <main>(): ...", trace_python="sch.split()", difference=""),
    )
    return JobReport(job=job, tasks=(task,), seconds={"total": 3.0, "build": 2.0, "run": 0.5}, numpy_latency_s=2e-5)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots without their lines, for tests of the text around them."""
    monkeypatch.setattr(plots, "as_svg", lambda *_, **__: "<svg></svg>")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a usual job. Drawing ten plots takes a second."""
    plots.prepare_matplotlib(tmp_path_factory.getbasetemp())
    return render_page(report_of("matmul"))


def test_page_contains_every_plot_and_no_external_resource(page: str) -> None:
    for title in ("over time", "over trials", "Failures by reason", "cost model", "Time per stage"):
        assert title in page
    assert page.count('<div class="drawn ') == 10, "each for a wide and for a narrow screen"
    assert not re.search(r"<script|<link|<img|@import|src=", page)


def without_plots(report: JobReport) -> JobReport:
    """As few plots as a page can have: drawing all of them takes a second."""
    empty = report.tasks[0].model_copy(update={"steps": (), "trials": (), "failures": {}, "accuracy": ()})
    return report.model_copy(update={"tasks": (empty,), "seconds": {"total": 3.0}})


@pytest.mark.usefixtures("undrawn")
def test_page_replaces_empty_plots_by_text() -> None:
    page = render_page(without_plots(report_of("matmul")))
    for words in ("No trial failed.", "Too few trials", "Nothing was measured."):
        assert words in page
    assert page.count('<div class="drawn ') == 4


@pytest.mark.usefixtures("undrawn")
def test_page_has_section_per_task() -> None:
    report = without_plots(report_of("first"))
    second = report.tasks[0].model_copy(update={"name": "second"})
    page = render_page(report.model_copy(update={"tasks": (report.tasks[0], second)}))
    assert "first and 1 more" in page
    assert 'class="name">second</h2>' in page


def test_plots_have_accessible_labels(page: str) -> None:
    assert page.count('role="img" aria-label="') == 10


def test_page_escapes_user_text() -> None:
    page = render_page(without_plots(report_of("<script>alert(1)</script>", message="<img src=x onerror=alert(1)>")))
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert "<img" not in page


@pytest.mark.parametrize("name", ["$x", r"\frac{", "名前", "a" * 300])
def test_plots_accept_any_name(name: str) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fonts may lack a glyph; the drawing is valid
        assert "<svg" in plots.as_svg(plots.latency_over_time(report_of(name).tasks[0], 3.0, 2e-5))


def test_plot_is_valid_svg_and_png(tmp_path: Path) -> None:
    report = report_of("matmul")
    image = plots.as_png(plots.latency_over_time(report.tasks[0], 3.0, 2e-5))
    assert image.startswith(b"\x89PNG")


def with_accuracy(share: float) -> JobReport:
    accuracy = tuple(each.model_copy(update={"share": share}) for each in report_of("matmul").tasks[0].accuracy)
    report = without_plots(report_of("matmul"))
    return report.model_copy(update={"tasks": (report.tasks[0].model_copy(update={"accuracy": accuracy}),)})


@pytest.mark.parametrize(
    ("share", "says", "says_not"),
    [
        (0.9, "90% of 200 pairs, ties left out; chance is", "no better"),
        (0.48, "no better than chance so far", "chance is 50%"),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_accuracy_text_compares_with_chance(share: float, says: str, says_not: str) -> None:
    page = render_page(with_accuracy(share))
    assert says in page
    assert says_not not in page


def test_page_shows_schedule_speed_and_environment(page: str) -> None:
    for words in ("def &lt;main&gt;(): ...", "sch.split()", "200 GFLOP/s", "A Processor, 2 cores", "llvm-22.1"):
        assert words in page
    assert "20 us on as many threads: the tuned function is 2x as fast" in page


def test_plot_marks_measured_and_verified_latency() -> None:
    task = report_of("matmul").tasks[0]
    slower = task.model_copy(update={"summary": task.summary.model_copy(update={"best_latency_s": 2e-5})})
    axes = plots.latency_over_time(slower, 3.0).axes[0]
    marks = {str(line.get_label()): line.get_xydata().tolist() for line in axes.lines}
    assert marks["measured: 10 us"] == [[2.0, 1e-5]]
    assert marks["verified: 20 us"] == [[3.0, 2e-5]]
    heights = [latency_s for _, latency_s in marks["best so far"]]
    assert heights == sorted(heights, reverse=True)
    unverified = slower.model_copy(update={"summary": slower.summary.model_copy(update={"record_id": None})})
    axes = plots.latency_over_time(unverified, 3.0).axes[0]
    assert not [line for line in axes.lines if str(line.get_label()).startswith("verified")]


PROBE = """<script>addEventListener("load", () => {
  const shown = [...document.querySelectorAll(".drawn svg")].filter(svg => svg.getClientRects().length)
  const widest = Math.max(...shown.map(svg => svg.getBoundingClientRect().right))
  parent.postMessage(`${document.documentElement.scrollWidth} ${Math.ceil(widest)} ${shown.length}`, "*")
})</script>"""
FRAME = """<script>addEventListener("message", event => document.body.append(event.data + "; "))</script>"""
IFRAME = """<iframe src="report.html" style="width:{width}px;height:600px;border:0"></iframe>"""
WIDTHS = (360, 1200)


@pytest.mark.faults
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs a browser")
def test_page_fits_narrow_and_wide_screens(tmp_path: Path) -> None:
    page = render_page(report_of("a_function_of_a_rather_long_name" * 3))
    (tmp_path / "report.html").write_text(re.sub(r"<meta http-equiv=.*?>", PROBE, page))
    frames = "".join(IFRAME.format(width=width) for width in WIDTHS)
    (tmp_path / "frame.html").write_text(f"<!doctype html><body>{FRAME}{frames}")
    options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile")
    ended = subprocess.run(
        ["chromium", *options, "--virtual-time-budget=5000", "--dump-dom", f"file://{tmp_path}/frame.html"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    measured = sorted(tuple(map(int, each)) for each in re.findall(r"(\d+) (\d+) (\d+); ", ended.stdout))
    assert len(measured) == len(WIDTHS), ended.stderr[-2000:]
    for width, (page_width, right, shown) in zip(WIDTHS, measured, strict=True):
        assert page_width <= width
        assert right <= width
        assert shown == 5
