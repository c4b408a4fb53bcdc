"""How much of a job's effort is still to be spent, given what its explorations have seen."""

from collections.abc import Sequence

from tunefarm_schemas.job import Effort, JobSpec, StopReason
from tunefarm_services.tuner.exploration_run import ExplorationRun

LEAST_DEVICE_SECONDS = 0.1


def effort_left(spec: JobSpec, runs: Sequence[ExplorationRun]) -> Effort | None:
    """What is left to spend; None when at least as much as was asked for has been spent already."""
    untried_seeds = _untried_seeds(spec, runs)
    if untried_seeds == 0 and _already_met(spec.effort, runs):
        return None
    spent_trials = sum(run.exploration.spent.trials for run in runs)
    spent_seconds = sum(run.exploration.spent.seconds for run in runs)
    return spec.effort.model_copy(
        update={
            "trials": max(spec.effort.trials - spent_trials, untried_seeds, 1),
            "seconds": None if spec.effort.seconds is None else max(spec.effort.seconds - spent_seconds, 1.0),
            "device_seconds": _device_seconds_left(spec.effort, runs),
        }
    )


def _device_seconds_left(effort: Effort, runs: Sequence[ExplorationRun]) -> float | None:
    if effort.device_seconds is None:
        return None
    return max(effort.device_seconds - _device_seconds_spent(runs), LEAST_DEVICE_SECONDS)


def _device_seconds_spent(runs: Sequence[ExplorationRun]) -> float:
    return sum(known.measurement.stages.device_s for run in runs for known in run.known)


def _untried_seeds(spec: JobSpec, runs: Sequence[ExplorationRun]) -> int:
    tried = {trace.text for run in runs for trace in run.traces.values()}
    return sum(trace.text not in tried for trace in spec.seed_traces)


def _already_met(effort: Effort, runs: Sequence[ExplorationRun]) -> bool:
    spent = [run.exploration.spent for run in runs]
    if all(each.stop_reason is StopReason.SPACE_EXHAUSTED for each in spent):
        return True
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
    return effort.plateau_trials is not None and all(each.stop_reason is StopReason.PLATEAU for each in spent)
