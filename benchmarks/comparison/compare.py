"""Compares ``tunefarm tune`` with TVM's own tuner. See ``python -m benchmarks.comparison.compare --help``."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.child_process import CommandFailed
from benchmarks.comparison.baseline_command import VARIABLE, run_baseline
from benchmarks.comparison.figures import figures
from benchmarks.comparison.our_tuner import run_ours
from benchmarks.comparison.pairing import Pairing, final_names, first_as_fast, schedules_to_retime
from benchmarks.comparison.raw_results import OtherMachine, RawResults, pairing_name
from benchmarks.comparison.retimed import RetimeAnswer, RetimeOrder, retime
from benchmarks.comparison.stock_run import run_stock
from benchmarks.comparison.tuner_run import TunerOrder, TunerRun
from benchmarks.machine import this_machine
from benchmarks.report.markdown_table import markdown_page
from benchmarks.report.plots import plot_latency_over_time, plot_ratios

SUITE = ("GMM", "C1D", "C2D", "DEP", "SFM", "T2D", "NRM", "CBR")
FORMS = {"full": (SUITE, (0, 1, 2)), "quick": (("GMM", "SFM"), (0,))}
TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class PairingPlan:
    """The options of a comparison."""

    workloads: list[str]
    seeds: list[int]
    trials: int
    longer_trials: int
    cores: int
    baseline: str | None


def main() -> int:
    """Run missing pairings, then write the page and the plots."""
    arguments = _parse()
    default_workloads, default_seeds = FORMS[arguments.form]
    plan = PairingPlan(
        workloads=arguments.workloads or list(default_workloads),
        seeds=arguments.seeds or list(default_seeds),
        trials=arguments.trials,
        longer_trials=arguments.longer_trials,
        cores=arguments.cores,
        baseline=os.environ.get(VARIABLE),
    )
    try:
        results = RawResults(arguments.output, this_machine())
    except OtherMachine as error:
        print(error, file=sys.stderr)
        return 2
    failed = 0 if arguments.only_report else run_plan(plan, results)
    reported = write_report(plan, results, arguments.output)
    return 0 if reported and not failed else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--form", choices=sorted(FORMS), default="quick", help="default workloads and seeds")
    parser.add_argument("--workloads", nargs="+", help="names of TVM's te_workload suite")
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--longer-trials", type=int, default=1024, help="budget where stock's result is not reached")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="threads of every kernel")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--only-report", action="store_true", help="run nothing; report existing results")
    return parser.parse_args()


def run_plan(plan: PairingPlan, results: RawResults) -> int:
    """Run every pairing without a result; return how many failed. The order of the tuners alternates."""
    _warm_page_cache()
    failed = 0
    pairs = [(workload, seed) for seed in plan.seeds for workload in plan.workloads]
    for number, (workload, seed) in enumerate(pairs):
        order = TunerOrder(workload=workload, trials=plan.trials, seed=seed, cores=plan.cores)
        print(f"[{number + 1}/{len(pairs)}] {workload}, seed {seed}", flush=True)
        name = pairing_name(workload, seed, plan.trials, plan.cores)
        try:
            make = partial(make_pairing, plan, order, number, results, name.removesuffix("pairing"))
            pairing = results.once(name, Pairing, make)
        except CommandFailed as error:
            failed += 1
            print(f"  failed: {error}", file=sys.stderr, flush=True)
            continue
        _print_pairing(pairing)
    return failed


def make_pairing(plan: PairingPlan, order: TunerOrder, number: int, results: RawResults, folder: str) -> Pairing:
    """Run the tuners one after the other, then time their schedules in turn.

    Raises:
        CommandFailed: a tuner failed, or found no valid schedule.
    """
    runs = _run_tuners(plan, order, number, results, folder)
    stock, ours = runs["stock"], runs["tunefarm"]
    baseline = runs.get("baseline")
    retimed = _retime(stock, ours, baseline)
    longer, longer_retimed = None, None
    if first_as_fast(ours, retimed) is None and plan.longer_trials > order.trials:
        longer_order = order.model_copy(update={"trials": plan.longer_trials})
        longer = results.once(
            f"{folder}longer", TunerRun, lambda: run_ours(longer_order, timeout_s=TIMEOUT_S, repeat=False)
        )
        longer_retimed = _retime(stock, longer, None)
    return Pairing(
        workload=order.workload,
        seed=order.seed,
        trials=order.trials,
        order=tuple(runs),
        stock=stock,
        ours=ours,
        baseline=baseline,
        retimed=retimed,
        longer=longer,
        longer_retimed=longer_retimed,
    )


def _run_tuners(
    plan: PairingPlan, order: TunerOrder, number: int, results: RawResults, folder: str
) -> dict[str, TunerRun]:
    tuners: dict[str, Callable[[], TunerRun]] = {
        "stock": lambda: run_stock(order, timeout_s=TIMEOUT_S),
        "tunefarm": lambda: run_ours(order, timeout_s=TIMEOUT_S),
    }
    if plan.baseline is not None:
        template = plan.baseline
        tuners["baseline"] = lambda: run_baseline(template, order, timeout_s=TIMEOUT_S)
    names = list(tuners)
    # Vary each workload's order between seeds too, although there may be as many workloads as orders.
    turn = (number + number // len(plan.workloads)) % len(names)
    return {name: results.once(folder + name, TunerRun, tuners[name]) for name in names[turn:] + names[:turn]}


def _retime(stock: TunerRun, ours: TunerRun, baseline: TunerRun | None) -> RetimeAnswer:
    if stock.final_trace is None or ours.final_trace is None:
        raise CommandFailed(f"no valid kernel: stock failures {stock.failures}, ours {ours.failures}")
    schedules = schedules_to_retime(stock, ours, baseline)
    order = RetimeOrder(workload=stock.workload, cores=stock.cores, schedules=schedules)
    answer = retime(order, timeout_s=TIMEOUT_S)
    wrong = [name for name in final_names(ours, baseline) if not answer.named(name).agrees]
    if wrong:
        raise CommandFailed(f"wrong results of shipped schedules: {', '.join(wrong)}")
    return answer


def _warm_page_cache() -> None:
    """Read all files that the tuners load, so that the first tuner does not wait for the disk."""
    modules = "import tvm.s_tir.tensor_intrin, tvm.s_tir.meta_schedule, xgboost, scipy.sparse, cloudpickle"
    subprocess.run([sys.executable, "-c", modules], check=True, capture_output=True)


def _print_pairing(pairing: Pairing) -> None:
    point = pairing.first_as_fast
    reached = f"as fast after {point.elapsed_s:.1f} s" if point else "never as fast"
    print(
        f"  stock {pairing.stock.wall_s:.0f} s, {pairing.stock_latency_s * 1e6:.1f} us; "
        f"ours {pairing.ours.wall_s:.1f} s, {pairing.our_latency_s * 1e6:.1f} us, {reached}",
        flush=True,
    )


def write_report(plan: PairingPlan, results: RawResults, folder: Path) -> bool:
    """Write ``comparison.md``, ``figures.json`` and the plots from existing results; False if there are none."""
    pairings = results.pairings(plan.workloads, plan.seeds, plan.trials, plan.cores)
    if not pairings:
        print("nothing to report: no comparison has finished", file=sys.stderr)
        return False
    result = figures(pairings)
    (folder / "figures.json").write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")
    page = markdown_page(result, pairings, this_machine())
    (folder / "comparison.md").write_text(page, encoding="utf-8")
    plot_latency_over_time(pairings, folder / "latency-over-time")
    plot_ratios(result, folder / "ratios")
    print(
        f"{folder / 'comparison.md'}: {result.time_ratio.mean:.1f}x less time, {result.quality_ratio.mean:.2f}x faster"
    )
    return True


if __name__ == "__main__":
    raise SystemExit(main())
