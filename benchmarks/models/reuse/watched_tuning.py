"""Runs ``tunefarm tune`` on a model and prints its progress, and ends the search when a goal is reached."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.child_process import CommandFailed
from benchmarks.models.reuse.model_course import ModelCoursePoint, course, latest_calls, reached, trial_costs

POLL_S = 2.0
PRINT_S = 20.0
FORCED_S = 3600.0
"""Verification, the build and its timing follow the search, on a busy host more than once."""
INTERRUPTED = 130


def tune_model(
    name: str, path: Path, home: Path, *, threads: int, trials: int, before: int, goal_s: float | None = None
) -> tuple[ModelCoursePoint, ...]:
    """Tune the model, and return the course of its search since the first ``before`` trials of the store.

    With ``goal_s``, end the search as Ctrl-C does once the predicted time of the model is at most that.

    Raises:
        CommandFailed: the command fails.
    """
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        child = subprocess.Popen(
            [
                *(sys.executable, "-m", "tunefarm", "tune", str(path), "--target", f"host:{threads}"),
                *("--trials", str(trials), "--json", "--output", str(home / "compiled" / name)),
            ],
            env={**os.environ, "TUNEFARM_HOME": str(home), "TVM_NUM_THREADS": str(threads)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            goal_is_reached = _watch(child, name, home, trials, before, goal_s)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        if child.returncode not in ((0, INTERRUPTED) if goal_is_reached else (0,)):
            errors.seek(0)
            raise CommandFailed(f"tunefarm tune {path} exited with {child.returncode}:\n{errors.read()[-2000:]}")
    calls = latest_calls(home)
    if calls is None:
        raise CommandFailed(f"tunefarm tune {path} opened no tasks in {home}")
    return course(trial_costs(home), calls, before)


def _watch(
    child: "subprocess.Popen[str]", name: str, home: Path, trials: int, before: int, goal_s: float | None
) -> bool:
    """Wait until the command ends. Returns whether it was told to end its search."""
    started_s = printed_s = time.monotonic()
    printed_trials = -1
    told_s: float | None = None
    while child.poll() is None:
        time.sleep(POLL_S)
        calls = latest_calls(home)
        if calls is None:
            continue
        points = course(trial_costs(home), calls, before)
        now_s = time.monotonic()
        if now_s - printed_s > PRINT_S:
            # Without further trials since the last line, the search waits for the device, or has ended.
            searches = printed_trials in (-1, 0) or points[-1].trials > printed_trials
            _print_progress(name, points, trials, now_s - started_s, goal_s, searches=searches)
            printed_s, printed_trials = now_s, points[-1].trials
        if goal_s is not None and told_s is None and child.poll() is None and reached(points, goal_s) is not None:
            sys.stdout.write(f"  {name}: the goal is reached\n")
            child.send_signal(signal.SIGINT)
            told_s = now_s
        if told_s is not None and now_s > told_s + FORCED_S:
            raise CommandFailed(f"tunefarm tune did not end within {FORCED_S:.0f} s after Ctrl-C")
    return told_s is not None


def _print_progress(
    name: str,
    points: Sequence[ModelCoursePoint],
    trials: int,
    elapsed_s: float,
    goal_s: float | None,
    *,
    searches: bool,
) -> None:
    now = points[-1]
    rate = now.trials / elapsed_s
    left = "no further trial: the device recovers, or the model is verified and built"
    if searches and rate > 0:
        left = f"{rate:.2f}/s, left {(trials - now.trials) / rate / 60:.0f} min at most"
    elif searches:
        left = "no trial so far"
    known = "unknown" if now.model_s is None else f"{now.model_s * 1e3:.3f} ms"
    goal = "" if goal_s is None else f", goal {goal_s * 1e3:.3f} ms"
    sys.stdout.write(
        f"  {name}: {now.trials} of {trials} trials, {now.device_s:.1f} device seconds, "
        f"predicted {known}{goal}, {left}\n"
    )
    sys.stdout.flush()
