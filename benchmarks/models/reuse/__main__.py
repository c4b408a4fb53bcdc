"""Tunes a model after a related one, alone in a fresh store, and once more. See ``--help``.

Four runs, in this order: the first model in an empty store; the second model in the same store; the second model again,
which must take no trial; and the second model in another empty store, until its predicted time is within 3% of what it
was after the first. A finished run is kept; a stopped one goes on from its store.
"""

import argparse
import signal
import sys
from functools import partial
from pathlib import Path

from benchmarks.comparison.raw_results import OtherMachine, RawResults
from benchmarks.machine import this_machine
from benchmarks.models.model_files import model_file
from benchmarks.models.reuse.model_course import ModelCoursePoint, reached, trial_costs
from benchmarks.models.reuse.watched_tuning import tune_model
from benchmarks.models.zoo import RELATIVES, TINY_RELATIVES, TINY_ZOO, ZOO
from tunefarm_schemas.frozen import Frozen

WITHIN = 1.03
MAX_SHARE = 0.25
"""The goal for the device time of the second model after the first, of its device time alone."""


class Before(Frozen):
    """The number of trials in a store before a run, kept so that a stopped run counts all of its own."""

    trials: int


class ReuseRun(Frozen):
    """One run: its course, and whether its search was ended at the goal."""

    model: str
    points: tuple[ModelCoursePoint, ...]

    @property
    def end(self) -> ModelCoursePoint:
        """What the search came to."""
        return self.points[-1]


def main() -> int:
    """Run what has no result, and print the figures."""
    options = _parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the command that runs is ended, too
    zoo = {**TINY_ZOO, **TINY_RELATIVES} if options.tiny else {**ZOO, **RELATIVES}
    try:
        results = RawResults(options.output, this_machine("torch"))
    except OtherMachine as error:
        print(error, file=sys.stderr)
        return 2
    size = "tiny" if options.tiny else "full"
    name = f"{size}-{options.first}-{options.second}-{options.threads}-threads-{options.trials}-trials"
    work = options.work / name
    paths = {each: model_file(zoo[each], "pt2", work) for each in (options.first, options.second)}

    def run(label: str, model: str, home: str, goal_s: float | None = None) -> ReuseRun:
        def tuned() -> ReuseRun:
            print(f"{model}, {label}", flush=True)
            folder = work / home
            before = results.once(f"raw/{name}/{label}-before", Before, lambda: Before(trials=len(trial_costs(folder))))
            points = tune_model(
                model, paths[model], folder, threads=options.threads, trials=options.trials, before=before.trials,
                goal_s=goal_s,
            )  # fmt: skip
            return ReuseRun(model=model, points=points)

        return results.once(f"raw/{name}/{label}", ReuseRun, partial(tuned))

    first = run("first", options.first, "shared")
    second = run("after", options.second, "shared")
    again = run("again", options.second, "shared")
    if second.end.model_s is None:
        print(f"{options.second} has no predicted time: give more --trials", file=sys.stderr)
        return 1
    goal_s = WITHIN * second.end.model_s
    alone = run("alone", options.second, "alone", goal_s)
    return _report(first, second, again, alone, goal_s)


def _report(first: ReuseRun, second: ReuseRun, again: ReuseRun, alone: ReuseRun, goal_s: float) -> int:
    for title, one in (("first", first), ("after it", second), ("again", again), ("alone", alone)):
        known = "unknown" if one.end.model_s is None else f"{one.end.model_s * 1e3:10.3f} ms"
        print(f"{one.model:16} {title:10} {one.end.trials:6} trials {one.end.device_s:9.1f} device seconds {known}")
    at_goal = reached(alone.points, goal_s)
    spent = alone.end if at_goal is None else at_goal
    # The part of the second run that is needed for the same goal, which later trials improve on.
    own = reached(second.points, goal_s) or second.end
    shares = [one.device_s / spent.device_s if spent.device_s else float("inf") for one in (second.end, own)]
    bound = "at most " if at_goal is None else ""
    end = f"{'not ' if at_goal is None else ''}reached after {spent.device_s:.1f} device seconds"
    print(f"alone, {goal_s * 1e3:.3f} ms {end}")
    print(f"device time after {first.model}, of that alone: {bound}{shares[0]:.1%}")
    print(f"device time until {goal_s * 1e3:.3f} ms after {first.model}, of that alone: {bound}{shares[1]:.1%}")
    is_reused = shares[0] <= MAX_SHARE and again.end.trials == 0
    print(f"goal of at most {MAX_SHARE:.0%}, and no trial for the same model again: {'met' if is_reused else 'missed'}")
    return 0 if is_reused else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", choices=[*ZOO, *RELATIVES], default="resnet18")
    parser.add_argument("--second", choices=[*ZOO, *RELATIVES], default="resnet34")
    parser.add_argument("--trials", type=int, default=1500, help="of each run at most")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tiny", action="store_true", help="the tiny models: tries the commands, shows nothing")
    parser.add_argument("--work", type=Path, default=Path("bench-output/reuse"))
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/models/reuse"))
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
