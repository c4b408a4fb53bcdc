"""The figures of a finished or interrupted job, gathered from the store."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import ValidationError

from tunefarm.job_queries import named_job
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.job import Job
from tunefarm_schemas.measurement import Failed, Timing
from tunefarm_services.store import LOCAL_TENANT, Store, StoredTrial
from tunefarm_services.tuner.summary import JobSummary, TaskSummary

ACCURACY_WINDOW: Final = 32
"""Trials over which the model's accuracy is taken."""
MOST_JOBS: Final = 200
"""How many of the latest jobs are looked through for one that measured what this one found in the store."""


class Step(Frozen):
    """The best latency from a moment of a run on, when the exploration had so many trials."""

    elapsed_s: float
    trials: int
    latency_s: float


class TaskReport(Frozen):
    """One task of a job, with all trials of its exploration, whichever run made them, numbered from 1.

    ``steps`` are those of the latest run that found anything faster; it took ``run_s`` seconds, and began with
    ``known_before_s``, the best of the trials before it, or with None. ``trials`` are the numbers and latencies of
    those that were timed. ``accuracy`` pairs a trial's number with the share of pairs the model had ordered right.
    """

    name: str
    summary: TaskSummary
    target: str
    steps: tuple[Step, ...]
    trials: tuple[tuple[int, float], ...]
    failures: dict[str, int]
    accuracy: tuple[tuple[int, float], ...]
    run_s: float = 0.0
    known_before_s: float | None = None

    @property
    def best_over_trials(self) -> tuple[tuple[int, float], ...]:
        """The trials that were faster than all before them, by number, with their latencies."""
        best: list[tuple[int, float]] = []
        for number, latency_s in self.trials:
            if not best or latency_s < best[-1][1]:
                best.append((number, latency_s))
        return tuple(best)


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
    runs = _runs_with_steps(store, job, {task.exploration_id for task in summary.tasks})
    tasks = tuple(
        _task_report(store, task, store.target(spec.target_id).canonical, runs.get(task.exploration_id))
        for task, spec in zip(summary.tasks, job.spec.tasks, strict=True)
    )
    return JobReport(job=job, tasks=tasks, seconds=summary.seconds)


def latest_job(store: Store | None, job_id: str | None) -> Job:
    """The job whose id is, or begins with, ``job_id``; the latest one where that is None.

    Raises:
        BadInput: there is none, or several.
    """
    if job_id is not None:
        return named_job(store, job_id)
    jobs: Sequence[Job] = [] if store is None else store.jobs(LOCAL_TENANT, limit=1000)
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


class _Run(NamedTuple):
    """What one run of a job found for one task, and how many seconds the run took."""

    task: TaskSummary
    seconds: float

    @property
    def trials_before(self) -> int:
        return self.task.trials_in_store - self.task.trials


def _runs_with_steps(store: Store, job: Job, exploration_ids: set[str]) -> Mapping[str, _Run]:
    """For each exploration the latest run that found anything: one of the job's, or else one of another job's."""
    found: dict[str, _Run] = {}
    for summary in _summaries_of_runs(store, job):
        for task in summary.tasks:
            if task.improvements and task.exploration_id in exploration_ids:
                found.setdefault(task.exploration_id, _Run(task, summary.seconds.get("total", 0.0)))
        if len(found) == len(exploration_ids):
            break
    return found


def _summaries_of_runs(store: Store, job: Job) -> Iterator[JobSummary]:
    """How the runs of the job ended, the latest first, and then those of other jobs over the same workloads."""
    yield from _summaries(store, job)
    workload_ids = {task.workload_id for task in job.spec.tasks}
    for other in store.jobs(LOCAL_TENANT, limit=MOST_JOBS):
        if other.job_id != job.job_id and any(task.workload_id in workload_ids for task in other.spec.tasks):
            yield from _summaries(store, other)


def _summaries(store: Store, job: Job) -> Iterator[JobSummary]:
    for event in reversed(store.events(LOCAL_TENANT, job.job_id)):
        if event.kind == "summary":
            try:
                summary = JobSummary.model_validate(event.data)
            except ValidationError:
                continue  # written by another version
            yield summary


def _task_report(store: Store, summary: TaskSummary, target: str, run: _Run | None) -> TaskReport:
    trials = sorted(store.trials(summary.exploration_id), key=lambda trial: trial.candidate.number)
    measured = [trial for trial in trials if trial.measurement is not None]
    timed = tuple(
        (position + 1, result.latency_s)
        for position, trial in enumerate(measured)
        if trial.measurement and isinstance(result := trial.measurement.result, Timing)
    )
    return TaskReport(
        name=summary.name,
        summary=summary,
        target=target,
        steps=() if run is None else _steps(run),
        trials=timed,
        failures=dict(Counter(_reason(trial) for trial in measured if _reason(trial))),
        accuracy=_accuracy(measured),
        run_s=0.0 if run is None else run.seconds,
        known_before_s=None if run is None else _known_before_s(run, timed),
    )


def _steps(run: _Run) -> tuple[Step, ...]:
    return tuple(
        Step(elapsed_s=step.elapsed_s, trials=run.trials_before + step.trials, latency_s=step.latency_s)
        for step in run.task.improvements
    )


def _known_before_s(run: _Run, timed: Sequence[tuple[int, float]]) -> float | None:
    """The best latency of the trials that were made before a run; its first step was faster than that."""
    first_s = run.task.improvements[0].latency_s
    before = [latency_s for number, latency_s in timed if number <= run.trials_before and latency_s > first_s]
    return min(before, default=None)


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
