"""A model's job as text: the table of its functions, and the lines of a running job."""

from pathlib import Path

import pytest

from tests.client.tuning.test_progress_display import progress
from tests.client.tuning.test_report import report_of, without_plots
from tunefarm.report import plots
from tunefarm.report.page import render_page
from tunefarm.terminal.job_text import job_text, task_text
from tunefarm.terminal.model_text import MAX_ROWS, built_text, model_text
from tunefarm.terminal.progress_display import panel_lines, progress_line
from tunefarm_schemas.views.jobs.progress import TaskTime
from tunefarm_schemas.views.jobs.summary import Progress
from tunefarm_schemas.views.jobs.waterfall import gain_line, predicted_s, waterfall, waterfall_bars

CONV = {
    "name": "conv", "weight": 4.0, "untuned_latency_s": 1e-3, "untried_latency_s": 2e-4, "best_latency_s": 1e-4,
    "record_id": "r", "trials": 60, "floating_point_operations": 4_000_000, "winner": "search",
}  # fmt: skip
DENSE = {
    "name": "dense", "weight": 1.0, "untuned_latency_s": 1e-3, "untried_latency_s": 1.2e-4, "best_latency_s": 1e-4,
    "trials": 4,
}  # fmt: skip
SUMMARY = {"job_id": "j", "of_model": True, "tasks": [DENSE, CONV], "seconds": {"total": 61.0}}


def test_waterfall_ranks_functions_by_their_time_in_a_run() -> None:
    first, second = waterfall(SUMMARY)
    assert (first.name, first.in_run_s, first.share) == ("conv", pytest.approx(4e-4), pytest.approx(0.8))
    assert (second.name, second.record_id) == ("dense", None)
    assert predicted_s([first, second]) == pytest.approx(5e-4)
    assert predicted_s([first, second], "untried") == pytest.approx(9.2e-4)


def test_predicted_time_needs_each_latency() -> None:
    rows = waterfall({"tasks": [CONV, {**DENSE, "untried_latency_s": None}]})
    assert predicted_s(rows, "untried") is None
    assert predicted_s(rows, "untuned") == pytest.approx(5e-3)


def test_predicted_time_takes_what_ships_of_functions_without_a_record() -> None:
    untimed = {**DENSE, "best_latency_s": None}
    for latency_s, without in ((1.2e-4, untimed), (1e-3, {**untimed, "untried_latency_s": None})):
        rows = waterfall({"tasks": [CONV, without]})
        assert predicted_s(rows) == pytest.approx(4e-4 + latency_s)
    assert predicted_s(waterfall({"tasks": [untimed]})) is None


def test_model_that_a_slow_moment_made_slower_is_called_slower() -> None:
    (row,) = waterfall({"tasks": [{**CONV, "best_latency_s": 2.5e-4}]})
    assert (
        gain_line([row])
        == "predicted time of the model 1 ms, 1.25x slower than without a trial, 4x faster than untuned"
    )


def test_text_of_a_models_job_is_a_table_with_sums() -> None:
    lines = job_text(SUMMARY).splitlines()
    assert lines[1].split() == [
        "conv",
        "4",
        "1",
        "ms",
        "200",
        "us",
        "100",
        "us",
        "-",
        "-",
        "400",
        "us",
        "80.0%",
        "40",
        "60",
        "search",
    ]
    assert lines[3].startswith("sum of calls")
    assert "predicted time of the model 500 us, 1.84x faster than without a trial, 10x faster than untuned" in lines
    assert lines[-1] == "1:01 in total, job j"


BUILD = {"latency_s": 6e-4, "interval_s": (5.5e-4, 7e-4), "cold_latency_s": 9e-4, "cold_interval_s": (8e-4, 1e-3)}
UNTRIED_BUILD = {**BUILD, "latency_s": 1.2e-3, "cold_latency_s": 1.8e-3}
BUILT = {"tuned_s": 6e-4, "is_tuned": True, "tuned": BUILD, "untried": UNTRIED_BUILD, "reference": "framework"}


def test_measured_times_stand_beside_the_predicted_one() -> None:
    lines = built_text(BUILT, waterfall(SUMMARY)).splitlines()
    predicted, warm, cold = (" ".join(line.split()) for line in lines[1:4])
    assert predicted == "predicted, sum of calls 920 us 500 us 1.84x"
    assert warm == "measured, warm caches 1.2 ms (550 us to 700 us) 600 us (550 us to 700 us) 2x"
    assert cold == "measured, cold caches 1.8 ms (800 us to 1 ms) 900 us (800 us to 1 ms) 2x"
    assert lines[4] == "the tuned build ships, within tolerance of the framework's results on three inputs"


def test_text_of_a_model_without_records_has_one_build() -> None:
    figures = {"tuned_s": None, "is_tuned": False, "tuned": None, "untried": UNTRIED_BUILD, "reference": None}
    lines = built_text(figures, waterfall(SUMMARY)).splitlines()
    assert lines[2].split()[-2:] == ["-", "-"]
    assert lines[-1] == "no function has a record: the build without a trial ships"


def test_report_of_a_built_model_shows_its_measured_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plots.prepare_matplotlib(tmp_path)
    report = without_plots(report_of("conv")).model_copy(update={"of_model": True, "built": BUILT})
    spec = report.job.spec.model_copy(update={"labels": {"module": "models/net.onnx"}})
    report = report.model_copy(update={"job": report.job.model_copy(update={"spec": spec})})
    page = render_page(report)
    assert ">600 us (550 us to 700 us)</td>" in page
    assert ">900 us (800 us to 1 ms)</td>" in page
    assert "The tuned build ships" in page
    assert "measured, tuned" in page
    assert "Tuning of net.onnx, a model of 1 function" in page
    monkeypatch.setattr(plots, "as_svg", lambda *_, **__: "<svg></svg>")
    assert "The model was not built." in render_page(report.model_copy(update={"built": None}))


def test_each_bucket_has_its_measured_times() -> None:
    build = {"latency_s": 1e-3, "cold_latency_s": 2e-3}
    faster = {"latency_s": 5e-4, "cold_latency_s": 1e-3}
    buckets = [{"sizes": {"batch": size}, "untried": build, "tuned": faster} for size in (1, 8)]
    lines = built_text({**BUILT, "buckets": buckets}, waterfall(SUMMARY)).splitlines()
    assert [" ".join(line.split()) for line in lines[5:7]] == [
        "batch=1 1 ms 500 us 2x 2 ms 1 ms",
        "batch=8 1 ms 500 us 2x 2 ms 1 ms",
    ]


def test_text_sums_up_many_functions() -> None:
    tasks = [{**DENSE, "name": f"dense{number}"} for number in range(MAX_ROWS + 3)]
    lines = model_text({"tasks": tasks}).splitlines()
    assert len(lines) == MAX_ROWS + 4
    assert any(line.startswith("3 others") for line in lines)


def test_waterfall_has_a_bar_for_each_saving_and_measured_time() -> None:
    bars = waterfall_bars(waterfall(SUMMARY), {"tuned": 5.5e-4})
    assert [(bar.name, bar.kind) for bar in bars] == [
        ("predicted, without a trial", "before"), ("conv", "saved"), ("dense", "saved"), ("predicted, tuned", "after"),
        ("measured, tuned", "measured"),
    ]  # fmt: skip
    assert [(bar.begin_s, bar.end_s) for bar in bars[:3]] == [
        (0.0, pytest.approx(9.2e-4)),
        (pytest.approx(5.2e-4), pytest.approx(9.2e-4)),
        (pytest.approx(5e-4), pytest.approx(5.2e-4)),
    ]
    assert waterfall_bars(waterfall({"tasks": [{**CONV, "best_latency_s": None}]}), {}) == []


ROOFLINE = {"latency_s": 5e-5, "bound": "compute", "compute_s": 5e-5, "memory_s": 1e-5, "moved_bytes": 4096}
UNITS = [
    {"functions": ["conv"], "times_s": {"our kernels": 1e-4, "a": time_s, "b": 3e-4}, "runner": "a"}
    for time_s in (8e-5, 1e-4)
]


def test_text_shows_rooflines_and_libraries_where_they_are_known() -> None:
    summary = {"tasks": [DENSE, {**CONV, "roofline": ROOFLINE}]}
    heading, conv, dense, *_ = model_text(summary, {"libraries": {"units": UNITS}}).splitlines()
    assert heading.split()[5:8] == ["library", "roofline", "bound"]
    assert conv.split()[8:13] == ["90", "us", "50", "us", "compute"]
    assert conv.split()[-1] == "a"
    assert dense.split()[8:11] == ["-", "-", "-"]
    bars = waterfall_bars(waterfall({"tasks": [{**CONV, "roofline": ROOFLINE}]}), {})
    assert (bars[-1].name, bars[-1].seconds) == ("roofline", pytest.approx(2e-4))


def test_text_of_a_function_says_how_far_it_is_from_the_roofline() -> None:
    text = task_text({**CONV, "roofline": ROOFLINE})
    assert "roofline 50 us, bound by compute, of which 50% is reached" in text
    assert "  roofline -" in task_text({**CONV, "roofline": None}).splitlines()
    assert "roofline" not in task_text(CONV)


def test_display_lists_the_functions_that_take_most_of_the_time() -> None:
    tasks = (
        TaskTime(name="dense", weight=1, trials=4, untried_latency_s=1.2e-4, best_latency_s=1e-4, share=0.2),
        TaskTime(name="conv", weight=4, trials=60, untried_latency_s=2e-4, best_latency_s=1e-4, share=0.8),
    )
    running = progress().model_copy(update={"tasks": tasks})
    lines = panel_lines(running)
    assert "model 500 us" in lines
    conv = next(number for number, line in enumerate(lines) if "conv" in line)
    assert "dense" in lines[conv + 1]
    assert {"4x", "2x", "80%", "60"} <= set(lines[conv].split())
    assert "model=500us" in progress_line(running)
    remote = Progress.of(running.model_dump(mode="json"))
    assert panel_lines(remote) == lines
    assert not any("model" in line and "us" in line for line in panel_lines(progress()))


def test_display_has_no_time_of_a_model_before_each_function_has_one() -> None:
    tasks = (TaskTime(name="a", weight=1, trials=0, untried_latency_s=None, best_latency_s=None, share=None),)
    assert "model -" in panel_lines(progress().model_copy(update={"tasks": tasks}))
