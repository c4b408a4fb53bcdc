"""Two jobs side by side: their results by task, their courses, failures, and the differences of their requests."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from pydantic import ValidationError

from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_schemas.tuning.job import Event, Exploration, Job, JobSpec
from tunefarm_schemas.views.jobs.job import (
    ComparedJob,
    ComparedTask,
    CoursePoint,
    JobComparison,
    RequestDifference,
    TaskFigures,
)
from tunefarm_schemas.views.jobs.summary import JobSummary, Progress, TaskSummary
from tunefarm_services.store.jobs.event_repository import EventRepository
from tunefarm_services.store.jobs.job_repository import JobRepository
from tunefarm_services.store.trials.exploration_repository import ExplorationRepository

MAX_COURSE_POINTS: Final = 500
MAX_EVENTS: Final = 20_000
"""Of a job without a summary that are read for its course, whose end is always shown."""
_EVENTS_AT_ONCE: Final = 1000
_MAX_TEXT: Final = 200
_SHOWN_APART: Final = frozenset({"tasks", "labels", "effort", "callees", "untuned_functions"})
_BY_DIGEST: Final = frozenset({"space", "seed_traces", "input_specs"})
T = TypeVar("T", JobSummary, Progress)


class CoursesOfJobs(Protocol):
    """What the store keeps of jobs and their courses."""

    @property
    def jobs(self) -> JobRepository:
        """The jobs."""
        ...

    @property
    def explorations(self) -> ExplorationRepository:
        """The explorations."""
        ...

    @property
    def events(self) -> EventRepository:
        """The events of the jobs."""
        ...


def compare_jobs(store: CoursesOfJobs, tenant: str, first_id: str, second_id: str) -> JobComparison:
    """Compare two jobs of a tenant. Raises NotFound."""
    first, second = _read(store, tenant, first_id), _read(store, tenant, second_id)
    workload_ids = list(dict.fromkeys(task.workload_id for job in (first, second) for task in job.job.spec.tasks))
    return JobComparison(
        first=first.compared(),
        second=second.compared(),
        tasks=tuple(_task(workload_id, first, second) for workload_id in workload_ids),
        differences=tuple(_differences(first.job.spec, second.job.spec)),
    )


@dataclass(frozen=True)
class _ReadJob:
    """A job with what its events say about its latest run."""

    job: Job
    explorations: Sequence[Exploration]
    summary: JobSummary | None
    progress: tuple[Progress, ...]
    """Those with a new best latency, and the latest."""

    def compared(self) -> ComparedJob:
        """The job without its tasks."""
        spec, summary, latest = self.job.spec, self.summary, self.progress[-1] if self.progress else None
        others = len(spec.tasks) - 1
        failures: Counter[str] = Counter() if summary or latest is None else Counter(latest.failures)
        for task in summary.tasks if summary else ():
            failures.update(task.failures)
        trials = None if latest is None else latest.trials_done
        elapsed_s = None if latest is None else latest.elapsed_s
        return ComparedJob(
            job_id=self.job.job_id,
            name=spec.tasks[0].name + (f" and {others} more" if others else ""),
            state=self.job.state,
            outcome=self.job.outcome,
            created_at=self.job.created_at,
            trials=trials if summary is None else sum(task.trials for task in summary.tasks),
            elapsed_s=elapsed_s if summary is None else summary.seconds.get("total"),
            failures=dict(failures),
        )

    def figures(self, workload_id: str) -> TaskFigures | None:
        """The result for the first of the job's tasks of a workload; None if it has no such task."""
        task = next((each for each in self.job.spec.tasks if each.workload_id == workload_id), None)
        if task is None:
            return None
        key = (workload_id, task.target_id)
        exploration = next((e for e in self.explorations if (e.key.workload_id, e.key.target_id) == key), None)
        summary = None if exploration is None else self._summary_of(exploration)
        course = self._course(summary)
        best_s = course[-1].latency_s if course else None
        return TaskFigures(
            target_id=task.target_id,
            device_class_id=None if exploration is None else exploration.key.device_class_id,
            best_latency_s=best_s if summary is None else summary.best_latency_s,
            interval_s=None if summary is None else summary.interval_s,
            was_busy=summary is not None and summary.was_busy,
            untuned_latency_s=None if summary is None else summary.untuned_latency_s,
            trials=(course[-1].trials if course else 0) if summary is None else summary.trials,
            failures={} if summary is None else summary.failures,
            record_id=None if summary is None else summary.record_id,
            course=course,
        )

    def _summary_of(self, exploration: Exploration) -> TaskSummary | None:
        tasks = self.summary.tasks if self.summary is not None else ()
        return next((each for each in tasks if each.exploration_id == exploration.exploration_id), None)

    def _course(self, summary: TaskSummary | None) -> tuple[CoursePoint, ...]:
        """From the summary, which has each improvement, or from the progress of a job with one task."""
        if summary is not None and self.summary is not None:
            found = [
                CoursePoint(trials=each.trials, elapsed_s=each.elapsed_s, latency_s=each.latency_s)
                for each in summary.improvements
                if not each.is_verified
            ]
            total_s = self.summary.seconds.get("total", 0.0)
            return _thinned([*found, _end(found[-1], summary.trials_of_latest_run, total_s)]) if found else ()
        if len(self.job.spec.tasks) > 1:
            return ()
        return _thinned(
            [
                CoursePoint(trials=each.trials_done, elapsed_s=each.elapsed_s, latency_s=each.best_latency_s)
                for each in self.progress
                if each.best_latency_s is not None
            ]
        )


def _end(last: CoursePoint, trials: int, elapsed_s: float) -> CoursePoint:
    """The end of a run whose last improvement was ``last``."""
    return CoursePoint(
        trials=max(trials, last.trials), elapsed_s=max(elapsed_s, last.elapsed_s), latency_s=last.latency_s
    )


def _thinned(points: Sequence[CoursePoint]) -> tuple[CoursePoint, ...]:
    """At most ``MAX_COURSE_POINTS`` evenly chosen points, the last among them."""
    return tuple(points[::-1][:: len(points) // MAX_COURSE_POINTS + 1][::-1])


def _task(workload_id: str, first: _ReadJob, second: _ReadJob) -> ComparedTask:
    found = [job.figures(workload_id) for job in (first, second)]
    names = [task.name for job in (first, second) for task in job.job.spec.tasks if task.workload_id == workload_id]
    ratio, overlap = None, None
    if found[0] is not None and found[1] is not None:
        a, b = found[0], found[1]
        if a.best_latency_s and b.best_latency_s:
            ratio = a.best_latency_s / b.best_latency_s
        if a.interval_s and b.interval_s and a.device_class_id == b.device_class_id:
            overlap = a.interval_s[0] <= b.interval_s[1] and b.interval_s[0] <= a.interval_s[1]
    return ComparedTask(
        name=names[0],
        workload_id=workload_id,
        first=found[0],
        second=found[1],
        ratio=ratio,
        intervals_overlap=overlap,
    )


def _differences(first: JobSpec, second: JobSpec) -> Iterator[RequestDifference]:
    texts = [dict(_fields(spec)) for spec in (first, second)]
    for field in dict.fromkeys([*texts[0], *texts[1]]):
        a, b = (text.get(field, "-") for text in texts)
        if a != b:
            yield RequestDifference(field=field, first=a, second=b)


def _fields(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """What was asked for, by field, as text. Long values by their digest."""
    dumped = spec.model_dump(mode="json")
    yield "tasks", ", ".join(dict.fromkeys(task.name for task in spec.tasks))[:_MAX_TEXT]
    yield "targets", ", ".join(dict.fromkeys(task.target_id[:12] for task in spec.tasks))[:_MAX_TEXT]
    for name, value in dumped["effort"].items():
        if value is not None:
            yield f"effort.{name}", f"{value:g}" if isinstance(value, float) else str(value)
    for name, value in spec.labels.items():
        yield f"label {name}", value[:_MAX_TEXT]
    for name, value in dumped.items():
        if name in _BY_DIGEST:
            yield name, digest(canonical_json(value))[:12] if value else "none"
        elif name not in _SHOWN_APART:
            yield name, "-" if value in (None, "") else str(value)[:_MAX_TEXT]


def _read(store: CoursesOfJobs, tenant: str, job_id: str) -> _ReadJob:
    job = store.jobs.get(tenant, job_id)
    explorations = store.explorations.of_job(tenant, job_id)
    summary = _latest(store.events, job, "summary", JobSummary)
    if summary is not None:
        return _ReadJob(job, explorations, summary, ())
    improved: list[Progress] = []
    for progress in _progress(store.events, tenant, job_id):
        if improved and progress.trials_done < improved[-1].trials_done:
            improved.clear()  # a new run of the job
        if not improved or progress.best_latency_s != improved[-1].best_latency_s:
            improved.append(progress)
    latest = _latest(store.events, job, "progress", Progress)
    return _ReadJob(job, explorations, None, (*improved, *([latest] if latest is not None else ())))


def _progress(events: EventRepository, tenant: str, job_id: str) -> Iterator[Progress]:
    """The progress of a job in its first ``MAX_EVENTS`` events."""
    after = 0
    while after < MAX_EVENTS and (found := events.of_job(tenant, job_id, after, _EVENTS_AT_ONCE)):
        for event in found:
            if event.kind == "progress" and (read := _parsed(Progress, event)) is not None:
                yield read
        after = found[-1].sequence


def _latest(events: EventRepository, job: Job, kind: str, model: type[T]) -> T | None:
    event = events.latest(job.tenant, job.job_id, kind)
    return None if event is None else _parsed(model, event)


def _parsed(model: type[T], event: Event) -> T | None:
    """The data of an event; None if another version of tunefarm wrote it in another form."""
    try:
        return model.model_validate(event.data)
    except ValidationError:
        return None
