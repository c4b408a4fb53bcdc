"""How much of a job's effort remains after the trials of its explorations."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from tunefarm_schemas.tuning.job import Effort, JobSpec, StopReason
from tunefarm_schemas.tuning.measurement import Timing
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.loop.budget import TaskBudget, small_tasks
from tunefarm_search.strategy.stopping import TaskCourse
from tunefarm_services.tuner.search.exploration_run import ExplorationRun

MIN_DEVICE_SECONDS: Final = 0.1
_OUT_OF_ORDER: Final = 8
"""Results arrive out of candidate order, by about the number of candidates in flight."""

Scheduled: TypeAlias = tuple[list[Any], Mapping[int, Any]]
"""Instructions before the postprocessors, and decisions by instruction."""


def effort_left(spec: JobSpec, runs: Sequence[ExplorationRun]) -> Effort | None:
    """The remaining effort; None if the requested effort has been spent.

    A task without trials keeps its share of the effort, even if other jobs spent the whole of it on the other tasks.
    """
    effort, untried = spec.effort, _untried_seeds(spec, runs)
    if _already_met(spec, runs):
        return effort.model_copy(update={"trials": untried}) if untried else None
    share = sum(run.exploration.spent.trials == 0 for run in runs) / len(runs)
    spent_trials = sum(run.exploration.spent.trials for run in runs)
    spent_seconds = sum(run.exploration.spent.seconds for run in runs)
    return effort.model_copy(
        update={
            "trials": max(effort.trials - spent_trials, math.ceil(share * effort.trials), untried, 1),
            "seconds": _left(effort.seconds, spent_seconds, share, 1.0),
            "device_seconds": _left(effort.device_seconds, _device_seconds_spent(runs), share, MIN_DEVICE_SECONDS),
        }
    )


def is_answered(spec: JobSpec, run: ExplorationRun) -> bool:
    """Whether a task of a model is done: it was verified after at least an equal share of the job's trials."""
    spent = run.exploration.spent
    is_done = spent.trials >= spec.effort.trials / len(spec.tasks) or spent.stop_reason is StopReason.SPACE_EXHAUSTED
    return spec.of_model and spent.trials > 0 and is_done and run.exploration.is_verified and bool(run.latencies_s)


def only_seeds_are_left(spec: JobSpec, runs: Sequence[ExplorationRun]) -> bool:
    """Whether the effort is spent and only untried seed traces remain."""
    return _already_met(spec, runs) and _untried_seeds(spec, runs) > 0


def _left(requested: float | None, spent: float, share: float, minimum: float) -> float | None:
    return None if requested is None else max(requested - spent, share * requested, minimum)


def _device_seconds_spent(runs: Sequence[ExplorationRun]) -> float:
    return sum(known.measurement.stages.device_s for run in runs for known in run.known)


def _untried_seeds(spec: JobSpec, runs: Sequence[ExplorationRun]) -> int:
    if not spec.seed_traces:
        return 0
    tried = [as_scheduled(trace) for run in runs for trace in run.traces.values()]
    return sum(not any(is_same_schedule(as_scheduled(seed), other) for other in tried) for seed in spec.seed_traces)


def as_scheduled(trace: Trace) -> Scheduled:
    """Instructions before the postprocessors, which the search adds, and decisions by instruction."""
    try:
        instructions, decisions = json.loads(trace.text)
        ends = [number for number, step in enumerate(instructions) if step[0] == "EnterPostproc"]
        end = ends[0] if ends else len(instructions)
        return instructions[:end], {number: value for number, value in decisions if number < end}
    except (ValueError, TypeError, LookupError):  # not a trace: equal to no candidate
        return [trace.text], {}


def is_same_schedule(seed: Scheduled, other: Scheduled) -> bool:
    """Whether ``other`` has the instructions and decisions of ``seed``, which may leave decisions open."""
    steps, decisions = seed
    return steps == other[0] and all(other[1].get(number) == value for number, value in decisions.items())


def _small_tasks(spec: JobSpec, runs: Sequence[ExplorationRun]) -> frozenset[int]:
    """The tasks of a model that the search leaves as they are, by their latencies in the store."""
    budgets = [TaskBudget(run.task.weight, of_model=spec.of_model) for run in runs]
    for budget, run in zip(budgets, runs, strict=True):
        budget.resume(run.exploration.spent.trials, run.exploration.best_latency_s or math.inf)
    return small_tasks(budgets)


def _already_met(spec: JobSpec, runs: Sequence[ExplorationRun]) -> bool:
    effort = spec.effort
    spent = [run.exploration.spent for run in runs]
    small = _small_tasks(spec, runs)
    if all(each.stop_reason is StopReason.SPACE_EXHAUSTED or n in small for n, each in enumerate(spent)):
        return True
    if any(each.trials == 0 for each in spent):
        return False
    if sum(each.trials for each in spent) >= effort.trials:
        return True
    if effort.seconds is not None and sum(each.seconds for each in spent) >= effort.seconds:
        return True
    if effort.device_seconds is not None and _device_seconds_spent(runs) >= effort.device_seconds:
        return True
    if effort.target_latency_s is not None and all(
        run.best_latency_s is not None and run.best_latency_s <= effort.target_latency_s for run in runs
    ):
        return True
    plateau_trials = effort.plateau_trials
    return plateau_trials is not None and all(_is_at_plateau(run, plateau_trials) for run in runs)


def _is_at_plateau(run: ExplorationRun, plateau_trials: int) -> bool:
    """Whether its search ended at a plateau of about ``plateau_trials`` or more."""
    if run.exploration.spent.stop_reason is not StopReason.PLATEAU or not run.known:
        return False
    course = TaskCourse()
    for known in run.known:
        result = known.measurement.result
        course = course.after(result.latency_s if isinstance(result, Timing) else None)
    return course.trials - course.trials_at_last_gain + _OUT_OF_ORDER >= plateau_trials
