"""The figures of a finished or interrupted job, gathered from the store."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from pydantic import ValidationError

from tunefarm.confined.record_view import RecordView
from tunefarm.report.job_queries import named_job
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.job import Job
from tunefarm_schemas.tuning.measurement import Failed, Timing
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.tuning.workload import Task
from tunefarm_schemas.views.jobs.job import CoursePoint
from tunefarm_schemas.views.jobs.summary import MODEL_BUILT, JobSummary, ModelAccuracy, TaskSummary
from tunefarm_schemas.views.quantities import counted
from tunefarm_services.store import LOCAL_TENANT, NotFound, StoredTrial
from tunefarm_services.store.catalog.device_repository import DeviceRepository
from tunefarm_services.store.catalog.target_repository import TargetRepository
from tunefarm_services.store.catalog.workload_repository import WorkloadRepository
from tunefarm_services.store.jobs.event_repository import EventRepository
from tunefarm_services.store.jobs.job_repository import JobRepository
from tunefarm_services.store.records.record_repository import RecordRepository
from tunefarm_services.store.trials.exploration_repository import ExplorationRepository
from tunefarm_services.store.trials.trial_repository import TrialRepository

MAX_JOBS: Final = 200
"""The number of recent jobs that are searched for the one that measured what this job found in the store."""


class TaskReport(Frozen):
    """A task of a job, with the trials of its exploration from all runs, numbered from 1.

    ``steps`` are the points at which the latest run that found a faster schedule did so, as measured during the search;
    their numbers of trials are of the exploration. The run took ``run_s`` seconds and started from ``known_before_s``,
    the best earlier latency, or None. ``trials`` are the numbers and latencies of timed trials. ``accuracy`` is the
    cost model's accuracy over all runs. ``schedule`` is the final schedule as text; None if it was not requested or
    cannot be shown.
    """

    name: str
    summary: TaskSummary
    target: str
    steps: tuple[CoursePoint, ...]
    trials: tuple[tuple[int, float], ...]
    failures: dict[str, int]
    accuracy: tuple[ModelAccuracy, ...]
    run_s: float = 0.0
    known_before_s: float | None = None
    floating_point_operations: float = 0.0
    processor: str = ""
    code_generator: str = ""
    schedule: RecordView | None = None

    @property
    def verified_s(self) -> float | None:
        """The record's latency in fresh processes, in seconds; None without a record."""
        return self.summary.best_latency_s if self.summary.record_id is not None else None

    @property
    def measured_s(self) -> float | None:
        """The best latency measured during the search, in seconds; None if nothing was timed."""
        return min((latency_s for _, latency_s in self.trials), default=None)

    @property
    def gigaflops(self) -> float | None:
        """The final schedule's GFLOP/s; None if its latency or number of operations is unknown."""
        best_s = self.summary.best_latency_s
        return self.floating_point_operations / best_s / 1e9 if best_s and self.floating_point_operations else None

    @property
    def best_over_trials(self) -> tuple[tuple[int, float], ...]:
        """The trials that were faster than all earlier ones: numbers and latencies."""
        best: list[tuple[int, float]] = []
        for number, latency_s in self.trials:
            if not best or latency_s < best[-1][1]:
                best.append((number, latency_s))
        return tuple(best)


class JobReport(Frozen):
    """A job and its tasks. ``seconds`` are the durations of stages: wall time, or sums over lanes."""

    job: Job
    tasks: tuple[TaskReport, ...]
    seconds: dict[str, float]
    numpy_latency_s: float | None = None
    of_model: bool = False
    built: dict[str, object] | None = None
    """The figures of the model as it was built last, as ``BuiltModel.figures``; None if it was not built."""


class SourcesOfReport(Protocol):
    """What the report of a job is gathered from."""

    @property
    def jobs(self) -> JobRepository:
        """The jobs."""
        ...

    @property
    def events(self) -> EventRepository:
        """The events of the jobs."""
        ...

    @property
    def explorations(self) -> ExplorationRepository:
        """The explorations."""
        ...

    @property
    def trials(self) -> TrialRepository:
        """The trials of the explorations."""
        ...

    @property
    def targets(self) -> TargetRepository:
        """The targets."""
        ...

    @property
    def workloads(self) -> WorkloadRepository:
        """The functions."""
        ...

    @property
    def devices(self) -> DeviceRepository:
        """The devices and their classes."""
        ...

    @property
    def records(self) -> RecordRepository:
        """The records."""
        ...


def job_report(store: SourcesOfReport, job: Job, view: Callable[[TuningRecord], RecordView] | None = None) -> JobReport:
    """Gather the report of a job, with the final schedules if ``view`` is given.

    Raises:
        BadInput: no run of the job has ended.
    """
    summary = last_summary(store.events, job)
    summaries = list(_summaries_of_runs(store.jobs, store.events, job))
    tasks = tuple(
        _task_report(store, task, spec, summaries, view)
        for task, spec in zip(summary.tasks, job.spec.tasks, strict=True)
    )
    built = _built(store.events, job) if summary.of_model else None
    return JobReport(job=job, tasks=tasks, seconds=summary.seconds, of_model=summary.of_model, built=built)


def _built(events: EventRepository, job: Job) -> dict[str, object] | None:
    figures = (event.data for event in events.of_job(LOCAL_TENANT, job.job_id) if event.kind == MODEL_BUILT)
    return next(reversed(list(figures)), None)


def latest_job(jobs: JobRepository | None, job_id: str | None) -> Job:
    """The job whose id is, or begins with, ``job_id``; the latest job if None.

    Raises:
        BadInput: no job matches, or several do.
    """
    if job_id is not None:
        return named_job(jobs, job_id)
    found: Sequence[Job] = [] if jobs is None else jobs.page(LOCAL_TENANT, limit=1000)
    if not found:
        raise BadInput("job", "the store has no jobs.", "Start one: tunefarm tune MODULE.")
    return max(found, key=lambda job: job.created_at)


def last_summary(events: EventRepository, job: Job) -> JobSummary:
    """The summary of the job's latest run.

    Raises:
        BadInput: no run of the job has ended.
    """
    for event in reversed(events.of_job(LOCAL_TENANT, job.job_id)):
        if event.kind == "summary":
            try:
                return JobSummary.model_validate(event.data)
            except ValidationError as error:
                fix = "Create the report with the version of tunefarm that ran the job."
                raise BadInput("job", f"the summary of {job.job_id} has an unknown format.", fix) from error
    fix = f"Wait for it, or resume it: tunefarm tune --resume {job.job_id}"
    raise BadInput("job", f"no run of job {job.job_id} has ended yet.", fix)


class _ReportedRun(NamedTuple):
    """The steps of one run of a job for one task, and the duration of the run."""

    task: TaskSummary
    seconds: float

    @property
    def trials_before(self) -> int:
        return self.task.trials_in_store - self.task.trials_of_latest_run


def _run_with_steps(summaries: Iterable[JobSummary], exploration_id: str) -> _ReportedRun | None:
    """The latest run that found a schedule for an exploration; ``summaries`` begin with this job's runs."""
    for summary in summaries:
        for task in summary.tasks:
            if task.improvements and task.exploration_id == exploration_id:
                return _ReportedRun(task, summary.seconds.get("total", 0.0))
    return None


def _accuracy(summaries: Iterable[JobSummary], exploration_id: str) -> tuple[ModelAccuracy, ...]:
    """The accuracy of the cost models of all runs on the exploration's trials, in order of the trials."""
    by_number = {
        accuracy.known: accuracy
        for summary in summaries
        for task in summary.tasks
        if task.exploration_id == exploration_id
        for accuracy in task.model_accuracy
    }
    return tuple(by_number[known] for known in sorted(by_number))


def _summaries_of_runs(jobs: JobRepository, events: EventRepository, job: Job) -> Iterator[JobSummary]:
    """The summaries of the job's runs, the latest first, then those of other jobs with the same workloads."""
    yield from _summaries(events, job)
    workload_ids = {task.workload_id for task in job.spec.tasks}
    for other in jobs.page(LOCAL_TENANT, limit=MAX_JOBS):
        if other.job_id != job.job_id and any(task.workload_id in workload_ids for task in other.spec.tasks):
            yield from _summaries(events, other)


def _summaries(events: EventRepository, job: Job) -> Iterator[JobSummary]:
    for event in reversed(events.of_job(LOCAL_TENANT, job.job_id)):
        if event.kind == "summary":
            try:
                summary = JobSummary.model_validate(event.data)
            except ValidationError:
                continue  # written by another version
            yield summary


def _task_report(
    store: SourcesOfReport,
    summary: TaskSummary,
    task: Task,
    summaries: Sequence[JobSummary],
    view: Callable[[TuningRecord], RecordView] | None,
) -> TaskReport:
    trials = sorted(store.trials.of_exploration(summary.exploration_id), key=lambda trial: trial.candidate.number)
    measured = [trial for trial in trials if trial.measurement is not None]
    timed = tuple(
        (position + 1, result.latency_s)
        for position, trial in enumerate(measured)
        if trial.measurement and isinstance(result := trial.measurement.result, Timing)
    )
    run = _run_with_steps(summaries, summary.exploration_id)
    key = store.explorations.get(LOCAL_TENANT, summary.exploration_id).key
    return TaskReport(
        name=summary.name,
        summary=summary,
        target=store.targets.get(task.target_id).canonical,
        steps=() if run is None else _steps(run),
        trials=timed,
        failures=dict(Counter(_reason(trial) for trial in measured if _reason(trial))),
        accuracy=_accuracy(summaries, summary.exploration_id),
        run_s=0.0 if run is None else run.seconds,
        known_before_s=None if run is None else _known_before_s(run, timed),
        floating_point_operations=store.workloads.get(LOCAL_TENANT, task.workload_id).floating_point_operations,
        processor=_processor(store.devices, key.device_class_id),
        code_generator=key.code_generator,
        schedule=None if view is None else _schedule(store.records, summary.record_id, view),
    )


def _processor(devices: DeviceRepository, device_class_id: str) -> str:
    try:
        device_class = devices.get_class(LOCAL_TENANT, device_class_id)
    except NotFound:
        return ""
    return f"{device_class.name}, {counted(device_class.cores, 'core')}"


def _schedule(
    records: RecordRepository, record_id: str | None, view: Callable[[TuningRecord], RecordView]
) -> RecordView | None:
    try:
        return None if record_id is None else view(records.get(LOCAL_TENANT, record_id))
    except (BadInput, NotFound):
        return None  # from another TVM version, or removed meanwhile: the report works without it


def _steps(run: _ReportedRun) -> tuple[CoursePoint, ...]:
    """The improvements measured during the search. Excludes the final verified latency, which may be higher."""
    steps: list[CoursePoint] = []
    for step in run.task.improvements:
        if not step.is_verified and (not steps or step.latency_s < steps[-1].latency_s):
            trials = run.trials_before + step.trials
            steps.append(CoursePoint(trials=trials, elapsed_s=step.elapsed_s, latency_s=step.latency_s))
    return tuple(steps)


def _known_before_s(run: _ReportedRun, timed: Sequence[tuple[int, float]]) -> float | None:
    """The best latency of the trials before a run; the run's first step is faster."""
    first_s = run.task.improvements[0].latency_s
    before = [latency_s for number, latency_s in timed if number <= run.trials_before and latency_s > first_s]
    return min(before, default=None)


def _reason(trial: StoredTrial) -> str:
    result = trial.measurement.result if trial.measurement else None
    return result.failure.reason.value if isinstance(result, Failed) else ""
