"""An external tuner, run as a command.

``BASELINE_COMMAND='python tune.py {workload} {trials} --seed {seed} --cores {cores}'`` adds a column to the comparison.
The last line of the command's output is JSON: ``points``, a list of [seconds, trials, microseconds] at each new best,
and ``best_us``. If it contains ``seconds``, the command's own total, the rest of the wall time is added to each point.
A point may have a fourth element, the schedule's trace as TVM's JSON in a string; these are timed with all others.
"""

import shlex
from typing import Any

from benchmarks.child_process import EndedCommand, run_command
from benchmarks.comparison.tuner_run import IncumbentPoint, TunerOrder, TunerRun

VARIABLE = "BASELINE_COMMAND"


def run_baseline(template: str, order: TunerOrder, *, timeout_s: float) -> TunerRun:
    """Run the command of ``template``, split into words, without a shell.

    Raises:
        CommandFailed: the command fails or prints no JSON.
    """
    arguments = [
        word.format(workload=order.workload, trials=order.trials, seed=order.seed, cores=order.cores)
        for word in shlex.split(template)
    ]
    return baseline_run(order, run_command(arguments, cores=order.cores, environment={}, timeout_s=timeout_s))


def baseline_run(order: TunerOrder, finished: EndedCommand) -> TunerRun:
    """Parse the output of the command. Its latencies are the command's own."""
    answer: dict[str, Any] = finished.last_json()
    outside_s = max(0.0, finished.wall_s - float(answer.get("seconds", finished.wall_s)))
    points = [
        IncumbentPoint(
            elapsed_s=float(seconds) + outside_s,
            trials=int(trials),
            latency_s=float(microseconds) * 1e-6,
            trace=trace[0] if trace else None,
        )
        for seconds, trials, microseconds, *trace in answer["points"]
    ]
    best_s = float(answer["best_us"]) * 1e-6
    if not points or best_s < points[-1].latency_s:
        points.append(IncumbentPoint(elapsed_s=finished.wall_s, trials=order.trials, latency_s=best_s))
    return TunerRun(
        tuner="baseline",
        workload=order.workload,
        seed=order.seed,
        cores=order.cores,
        trials_asked=order.trials,
        trials=order.trials,
        wall_s=finished.wall_s,
        points=tuple(points),
        final_trace=points[-1].trace,
        seconds={},
        failures={},
    )
