"""Which tasks of a model are done, by their trials and records in the store."""

from dataclasses import replace

from tests.tuner.job.test_effort_left import run_that_spent
from tunefarm_schemas.tuning.job import Effort, JobSpec, StopReason
from tunefarm_services.tuner.job.effort_left import effort_left, is_answered
from tunefarm_services.tuner.search.exploration_run import ExplorationRun

TRIALS = 20


def run_of_model(
    trials: int, best_s: float, *, calls: float = 1.0, verified: int | None = None, reason: StopReason | None = None
) -> ExplorationRun:
    run = run_that_spent(trials, reason=reason, best_s=best_s)
    spent = run.exploration.model_copy(update={"verified_trials": trials if verified is None else verified})
    task = run.task.model_copy(update={"weight": calls})
    return replace(run, exploration=spent, task=task, latencies_s={0: best_s})


def spec_of(*runs: ExplorationRun, of_model: bool = True) -> JobSpec:
    tasks = tuple(run.task for run in runs)
    return JobSpec(tasks=tasks, effort=Effort(trials=TRIALS), protocol_id="cpu-hot-cache/1", of_model=of_model)


def test_task_is_answered_by_a_record_after_its_share_of_the_trials() -> None:
    enough, fewer, unverified = run_of_model(10, 1e-3), run_of_model(9, 1e-3), run_of_model(12, 1e-3, verified=11)
    spec = spec_of(enough, fewer)
    assert is_answered(spec, enough)
    assert not is_answered(spec, fewer)
    assert not is_answered(spec, unverified)
    assert not is_answered(spec_of(enough, fewer, of_model=False), enough)


def test_task_whose_space_is_exhausted_is_answered() -> None:
    run = run_of_model(2, 1e-3, reason=StopReason.SPACE_EXHAUSTED)
    assert is_answered(spec_of(run, run), run)


def test_effort_is_spent_when_only_small_tasks_remain() -> None:
    exhausted, small = run_of_model(3, 1e-3, reason=StopReason.SPACE_EXHAUSTED), run_of_model(1, 1e-6)
    assert effort_left(spec_of(exhausted, small), [exhausted, small]) is None
    often = run_of_model(1, 1e-6, calls=500.0)
    assert effort_left(spec_of(exhausted, often), [exhausted, often]) is not None
    others = spec_of(exhausted, small, of_model=False)
    assert effort_left(others, [exhausted, small]) is not None
