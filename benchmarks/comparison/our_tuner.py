"""``tunefarm tune`` on one workload, with an empty store and then again with the resulting one."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.child_process import EndedCommand, run_command
from benchmarks.comparison.tuner_run import IncumbentPoint, Repeat, TunerOrder, TunerRun


def run_ours(order: TunerOrder, *, timeout_s: float, repeat: bool = True) -> TunerRun:
    """Run the command as a user would. ``repeat`` runs it again with the filled store.

    Raises:
        CommandFailed: the command fails or prints no summary.
    """
    with tempfile.TemporaryDirectory(prefix="tunefarm-benchmark-") as home:
        first = _tune(order, home, timeout_s)
        again = _tune(order, home, timeout_s) if repeat else None
    return tuner_run(order, first, again)


def _tune(order: TunerOrder, home: str, timeout_s: float) -> EndedCommand:
    command = Path(sys.executable).with_name("tunefarm")
    arguments = [str(command), "tune", f"te:{order.workload}", "--target", f"host:{order.cores}"]
    arguments += ["--trials", str(order.trials), "--seed", str(order.seed), "--json"]
    return run_command(arguments, cores=order.cores, environment={"TUNEFARM_HOME": home}, timeout_s=timeout_s)


def tuner_run(order: TunerOrder, first: EndedCommand, again: EndedCommand | None) -> TunerRun:
    """Parse the output of the command.

    The difference between the command's own total and its wall time, which is the start and exit of the interpreter, is
    added to every point, so that no point is too early.
    """
    summary: dict[str, Any] = first.last_json()
    task = summary["tasks"][0]
    outside_s = max(0.0, first.wall_s - summary["seconds"]["total"])
    points = tuple(
        IncumbentPoint(
            elapsed_s=improvement["elapsed_s"] + outside_s,
            trials=improvement["trials"],
            latency_s=improvement["latency_s"],
            trace=improvement["trace"],
        )
        for improvement in task["improvements"]
    )
    return TunerRun(
        tuner="tunefarm",
        workload=order.workload,
        seed=order.seed,
        cores=order.cores,
        trials_asked=order.trials,
        trials=task["trials"],
        wall_s=first.wall_s,
        points=points,
        final_trace=points[-1].trace if points else None,
        seconds={name: float(seconds or 0.0) for name, seconds in summary["seconds"].items()},
        failures=task["failures"],
        repeat=_repeat(again),
    )


def _repeat(again: EndedCommand | None) -> Repeat | None:
    if again is None:
        return None
    summary: dict[str, Any] = again.last_json()
    return Repeat(wall_s=again.wall_s, trials=summary["tasks"][0]["trials"])
