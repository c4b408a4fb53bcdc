"""Figures and report of the comparison with TVM's tuner."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.child_process import CommandFailed, EndedCommand, run_command
from benchmarks.comparison.baseline_command import run_baseline
from benchmarks.comparison.compare import PairingPlan, write_report
from benchmarks.comparison.figures import figures
from benchmarks.comparison.our_tuner import tuner_run
from benchmarks.comparison.pairing import Pairing, schedules_to_retime
from benchmarks.comparison.raw_results import OtherMachine, RawResults, pairing_name
from benchmarks.comparison.retimed import RetimeAnswer, Retimed
from benchmarks.comparison.tuner_run import IncumbentPoint, Repeat, TunerOrder, TunerRun
from benchmarks.machine import this_machine
from benchmarks.report.markdown_table import markdown_page
from tunefarm_workers.timing.ratio_interval import ratio_over

ORDER = TunerOrder(workload="GMM", trials=128, seed=0, cores=2)


def run_of(tuner: str, wall_s: float, *latencies_us: float) -> TunerRun:
    points = tuple(
        IncumbentPoint(elapsed_s=float(number + 1), trials=number + 1, latency_s=latency * 1e-6, trace="[]")
        for number, latency in enumerate(latencies_us)
    )
    return TunerRun(
        tuner=tuner,
        workload="GMM",
        seed=0,
        cores=2,
        trials_asked=128,
        trials=128,
        wall_s=wall_s,
        points=points,
        final_trace="[]",
        seconds={"build": 6.4},
        failures={"build_error": 32},
        repeat=Repeat(wall_s=0.8, trials=0),
    )


def retimed(name: str, latency_us: float, agrees: bool = True) -> Retimed:
    samples = tuple(latency_us * 1e-6 * factor for factor in (0.99, 1.0, 1.01))
    return Retimed(name=name, latency_s=latency_us * 1e-6, deviation_s=0.0, samples_s=samples, agrees=agrees)


def answer_of(stock_us: float, *incumbents: Retimed) -> RetimeAnswer:
    return RetimeAnswer(schedules=(retimed("stock", stock_us), *incumbents))


def pairing_of(answer: RetimeAnswer, **more: object) -> Pairing:
    return Pairing(
        workload="GMM",
        seed=0,
        trials=128,
        order=("stock", "tunefarm"),
        stock=run_of("stock", 60.0, 30.0),
        retimed=answer,
        **{"ours": run_of("tunefarm", 12.0, *[1.0] * (len(answer.schedules) - 1)), "baseline": None, **more},
    )


def test_time_ratio_uses_retimed_latencies_of_incumbents() -> None:
    pairing = pairing_of(answer_of(10.0, retimed("tunefarm 0", 11.0), retimed("tunefarm 1", 10.0)))
    assert pairing.first_as_fast is not None
    assert pairing.first_as_fast.elapsed_s == 2.0
    assert pairing.time_ratio == 30.0


def test_incumbent_must_be_as_fast_in_both_halves_of_the_rounds() -> None:
    in_turn = retimed("tunefarm 0", 9.9).model_copy(update={"samples_s": tuple([8e-6, 11e-6] * 10)})
    pairing = pairing_of(answer_of(10.0, in_turn, retimed("tunefarm 1", 9.0)))
    assert pairing.time_ratio == 30.0


def test_incumbent_with_wrong_result_does_not_count() -> None:
    wrong = retimed("tunefarm 0", 1.0, agrees=False)
    pairing = pairing_of(answer_of(10.0, wrong, retimed("tunefarm 1", 9.0)))
    assert pairing.time_ratio == 30.0


def test_time_ratio_uses_longer_run_if_equal_one_missed_the_result() -> None:
    short = answer_of(10.0, retimed("tunefarm 0", 12.0))
    longer_answer = answer_of(10.0, retimed("tunefarm 0", 9.0))
    pairing = pairing_of(short, longer=run_of("tunefarm", 40.0, 9.0), longer_retimed=longer_answer)
    assert pairing.time_ratio == 60.0


def test_unreached_result_is_marked_and_uses_total_time() -> None:
    pairing = pairing_of(answer_of(10.0, retimed("tunefarm 0", 12.0)))
    row = figures([pairing]).workloads[0]
    assert row.not_reached == 1
    assert row.time_ratio.mean == pytest.approx(5.0)


def test_workload_figures_contain_cost_failures_and_quality() -> None:
    row = figures([pairing_of(answer_of(10.0, retimed("tunefarm 0", 8.0)))]).workloads[0]
    assert row.quality_ratio.mean == pytest.approx(1.25)
    assert row.our_seconds_per_trial == pytest.approx(12.0 / 128)
    assert row.our_stage_seconds_per_trial["build"] == pytest.approx(0.05)
    assert row.our_failures == 0.25
    assert row.repeat_trials == 0


def test_ratio_is_geometric_mean_and_interval_spans_seeds() -> None:
    ratio = ratio_over([[[2.0], [8.0]], [[4.0], [4.0]]])
    assert ratio.mean == pytest.approx(4.0)
    assert ratio.low < 4.0 < ratio.high
    assert ratio.low >= 2.0
    assert ratio.high <= 8.0


def test_ratio_of_single_seed_has_no_spread() -> None:
    ratio = ratio_over([[[3.0]]])
    assert (ratio.low, ratio.high) == (pytest.approx(3.0), pytest.approx(3.0))


def test_points_include_start_and_exit_of_the_command() -> None:
    improvement = {"elapsed_s": 2.0, "trials": 5, "latency_s": 1e-5, "trace": "[]"}
    task = {"name": "main", "trials": 128, "improvements": [improvement], "failures": {}}
    summary = {"tasks": [task], "seconds": {"total": 9.5, "first_measured": None}}
    run = tuner_run(ORDER, EndedCommand(wall_s=10.0, standard_output=json.dumps(summary)), None)
    assert run.points[0].elapsed_s == 2.5
    assert run.final_trace == "[]"


def test_baseline_accepts_command_with_json_on_last_line(tmp_path: Path) -> None:
    script = tmp_path / "baseline.py"
    last_line = "'{\"points\": [[1.0, 3, 20.0]], \"best_us\": ' + sys.argv[1] + '}'"
    script.write_text(f"import sys; print('noise'); print({last_line})")
    run = run_baseline(f"{sys.executable} {script} {{cores}}", ORDER, timeout_s=30)
    assert [point.latency_s for point in run.points] == [pytest.approx(20e-6), pytest.approx(2e-6)]


def test_baseline_with_traces_is_timed_again(tmp_path: Path) -> None:
    script = tmp_path / "baseline.py"
    script.write_text(
        """print('{"points": [[1.0, 3, 20.0, "[]"], [2.0, 5, 5.0, "[]"]], "best_us": 5.0, "seconds": 9.0}')"""
    )
    run = run_baseline(f"{sys.executable} {script}", ORDER, timeout_s=30)
    answer = answer_of(10.0, retimed("tunefarm 0", 8.0), retimed("baseline 0", 20.0), retimed("baseline 1", 10.0))
    pairing = pairing_of(answer, ours=run_of("tunefarm", 12.0, 8.0), baseline=run)
    row = figures([pairing]).workloads[0]
    assert run.final_trace == "[]"
    assert [schedule.name for schedule in schedules_to_retime(pairing.stock, pairing.ours, run)] == [
        timed.name for timed in answer.schedules
    ]
    assert row.baseline_latency_s == pytest.approx(10e-6), "the retimed latency, not the reported one"
    assert row.baseline_quality_ratio is not None
    assert row.baseline_quality_ratio.mean == pytest.approx(1.25)
    assert row.baseline_time_ratio is not None
    assert row.baseline_time_ratio.mean == pytest.approx(60.0 / run.points[1].elapsed_s)
    assert "1.25x" in markdown_page(figures([pairing]), [pairing], this_machine())


def test_run_command_kills_command_at_timeout() -> None:
    with pytest.raises(CommandFailed, match="did not end within 1 s"):
        run_command([sys.executable, "-c", "import time; time.sleep(60)"], cores=1, environment={}, timeout_s=1.0)


def test_run_command_reports_exit_status_and_output() -> None:
    with pytest.raises(CommandFailed, match="exited with 3"):
        run_command([sys.executable, "-c", "raise SystemExit(3)"], cores=1, environment={}, timeout_s=30.0)


def test_raw_results_resume_with_stored_values(tmp_path: Path) -> None:
    results = RawResults(tmp_path, this_machine())
    results.once("raw/one", TunerRun, lambda: run_of("stock", 60.0, 30.0))
    kept = RawResults(tmp_path, this_machine()).once("raw/one", TunerRun, lambda: pytest.fail("it ran again"))
    assert kept.wall_s == 60.0


def test_raw_results_reject_other_machine(tmp_path: Path) -> None:
    RawResults(tmp_path, this_machine().model_copy(update={"processor": "another"}))
    with pytest.raises(OtherMachine, match="another"):
        RawResults(tmp_path, this_machine())


def test_write_report_writes_page_plots_and_figures(tmp_path: Path) -> None:
    results = RawResults(tmp_path, this_machine())
    pairing = pairing_of(answer_of(10.0, retimed("tunefarm 0", 12.0), retimed("tunefarm 1", 8.0)))
    results.once(pairing_name("GMM", 0, 128, 2), Pairing, lambda: pairing)
    plan = PairingPlan(workloads=["GMM"], seeds=[0], trials=128, longer_trials=1024, cores=2, baseline=None)
    assert write_report(plan, results, tmp_path)
    assert "| GMM |" in (tmp_path / "comparison.md").read_text()
    pictures = {path.name for path in tmp_path.iterdir() if path.suffix in {".svg", ".png"}}
    assert pictures == {"latency-over-time.svg", "latency-over-time.png", "ratios.svg", "ratios.png"}
