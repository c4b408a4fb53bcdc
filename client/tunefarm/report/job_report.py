"""The figures of a finished or interrupted job, gathered from the store."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from pydantic import ValidationError

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.job import Job
from tunefarm_schemas.measurement import Failed, Timing
from tunefarm_services.store import LOCAL_TENANT, Store, StoredTrial
from tunefarm_services.tuner.summary import JobSummary, TaskSummary

ACCURACY_WINDOW: Final = 32
"""Trials over which the model's accuracy is taken."""


class Step(Frozen):
    """The best latency from a moment on."""

    elapsed_s: float
    trials: int
    latency_s: float


class TaskReport(Frozen):
    """One task of a job. ``accuracy`` pairs a trial's number with the share of pairs the model had ordered right."""

    name: str
    summary: TaskSummary
    target: str
    steps: tuple[Step, ...]
    trials: tuple[tuple[int, float], ...]
    failures: dict[str, int]
    accuracy: tuple[tuple[int, float], ...]


class JobReport(Frozen):
    """A job and its tasks. ``seconds`` says where the time went: on the wall, and summed over lanes."""

    job: Job
    tasks: tuple[TaskReport, ...]
    seconds: dict[str, float]
    numpy_latency_s: float | None = None


def job_report(store: Store, job: Job) -> JobReport:
    """Gather the report of a job.

    Raises:
        BadInput: nothing was measured for it yet.
    """
    summary = last_summary(store, job)
    tasks = tuple(
        _task_report(store, task, store.target(spec.target_id).canonical)
        for task, spec in zip(summary.tasks, job.spec.tasks, strict=True)
    )
    return JobReport(job=job, tasks=tasks, seconds=summary.seconds)


def latest_job(store: Store, job_id: str | None) -> Job:
    """The job of that id, or the latest one.

    Raises:
        BadInput: there is none.
    """
    if job_id is not None:
        return store.job(LOCAL_TENANT, job_id)
    jobs: Sequence[Job] = store.jobs(LOCAL_TENANT, limit=1000)
    if not jobs:
        raise BadInput("job", "the store holds no jobs.", "Start one: tunefarm tune MODULE.")
    return max(jobs, key=lambda job: job.created_at)


def last_summary(store: Store, job: Job) -> JobSummary:
    """How the latest run of the job ended.

    Raises:
        BadInput: no run of it has ended.
    """
    for event in reversed(store.events(LOCAL_TENANT, job.job_id)):
        if event.kind == "summary":
            try:
                return JobSummary.model_validate(event.data)
            except ValidationError as error:
                fix = "Make the report with the version of tunefarm that ran the job."
                raise BadInput("job", f"the summary of {job.job_id} has another form.", fix) from error
    fix = f"Wait for it, or go on with it: tunefarm tune --resume {job.job_id}"
    raise BadInput("job", f"no run of job {job.job_id} has ended yet.", fix)


def _task_report(store: Store, summary: TaskSummary, target: str) -> TaskReport:
    trials = sorted(store.trials(summary.exploration_id), key=lambda trial: trial.candidate.number)
    measured = [trial for trial in trials if trial.measurement is not None]
    steps = [
        Step(elapsed_s=step.elapsed_s, trials=step.trials, latency_s=step.latency_s) for step in summary.improvements
    ]
    return TaskReport(
        name=summary.name,
        summary=summary,
        target=target,
        steps=tuple(steps),
        trials=tuple(
            (position + 1, result.latency_s)
            for position, trial in enumerate(measured)
            if trial.measurement and isinstance(result := trial.measurement.result, Timing)
        ),
        failures=dict(Counter(_reason(trial) for trial in measured if _reason(trial))),
        accuracy=_accuracy(measured),
    )


def _reason(trial: StoredTrial) -> str:
    result = trial.measurement.result if trial.measurement else None
    return result.failure.reason.value if isinstance(result, Failed) else ""


def _accuracy(trials: Sequence[StoredTrial]) -> tuple[tuple[int, float], ...]:
    scored = [
        (position + 1, trial.candidate.predicted_score, result.latency_s)
        for position, trial in enumerate(trials)
        if trial.measurement
        and isinstance(result := trial.measurement.result, Timing)
        and trial.candidate.predicted_score is not None
    ]
    points = []
    for end in range(ACCURACY_WINDOW // 2, len(scored) + 1, ACCURACY_WINDOW // 4):
        window = scored[max(0, end - ACCURACY_WINDOW) : end]
        points.append((window[-1][0], pair_accuracy([(score, latency_s) for _, score, latency_s in window])))
    return tuple(points)


def pair_accuracy(scored: Sequence[tuple[float, float]]) -> float:
    """Share of the pairs of (score, latency) in which the higher score has the lower latency; 0.5 is chance."""
    pairs = [(a, b) for position, a in enumerate(scored) for b in scored[position + 1 :] if a[1] != b[1]]
    if not pairs:
        return 0.5
    return sum(0.5 if a[0] == b[0] else float((a[0] > b[0]) == (a[1] < b[1])) for a, b in pairs) / len(pairs)
