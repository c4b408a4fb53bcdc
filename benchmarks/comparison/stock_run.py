"""TVM's own tuner in a separate process."""

import sys
from typing import Any

from benchmarks.child_process import run_command
from benchmarks.comparison.tuner_run import IncumbentPoint, TunerOrder, TunerRun


def run_stock(order: TunerOrder, *, timeout_s: float) -> TunerRun:
    """Run ``benchmarks.comparison.stock_tuner`` from start to exit.

    Raises:
        CommandFailed: the tuner fails.
    """
    arguments = [
        sys.executable,
        "-m",
        "benchmarks.comparison.stock_tuner",
        order.workload,
        "--trials",
        str(order.trials),
    ]
    arguments += ["--seed", str(order.seed), "--cores", str(order.cores)]
    finished = run_command(arguments, cores=order.cores, environment={}, timeout_s=timeout_s)
    answer: dict[str, Any] = finished.last_json()
    return TunerRun(
        tuner="stock",
        workload=order.workload,
        seed=order.seed,
        cores=order.cores,
        trials_asked=order.trials,
        trials=answer["trials"],
        wall_s=finished.wall_s,
        points=tuple(IncumbentPoint.model_validate(point) for point in answer["points"]),
        final_trace=answer["final_trace"],
        seconds=answer["seconds"],
        failures=answer["failures"],
    )
