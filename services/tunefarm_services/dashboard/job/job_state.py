"""A job as its page shows it: the row, the latest progress, and the summary once there is one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tunefarm_schemas.tuning.job import Event, Job, JobState
from tunefarm_schemas.views.jobs.summary import MODEL_BUILT, JobSummary, Progress, TaskSummary
from tunefarm_services.dashboard.drawings.time_bars import TimeBar, time_bars
from tunefarm_services.store import NotFound
from tunefarm_services.store.jobs.event_repository import EventRepository
from tunefarm_services.store.jobs.job_repository import JobRepository


class _Figures(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PlanTime(_Figures):
    """A plan of which library runs what, with the latency of the model under it or the reason why there is none."""

    plan: str
    latency_s: float | None = None
    problem: str | None = None


class LibraryTimes(_Figures):
    """The plans that were timed beside each other, and the fastest one's name."""

    winner: str
    plans: tuple[PlanTime, ...] = ()


class BuiltTimes(_Figures):
    """Latencies of one run of a built model, in seconds."""

    tuned_s: float | None = None
    untried_s: float | None = None
    libraries: LibraryTimes | None = None


def built_times(figures: Mapping[str, object]) -> BuiltTimes | None:
    """The times in an event of a built model; None if another version of tunefarm wrote it in another form."""
    try:
        return BuiltTimes.model_validate(figures)
    except ValidationError:
        return None


ACTIONS: dict[JobState, tuple[str, ...]] = {
    JobState.QUEUED: ("pause", "cancel"),
    JobState.RUNNING: ("pause", "finish", "cancel"),
    JobState.PAUSED: ("resume", "finish", "cancel"),
    JobState.FINISHED: (),
}
"""What can be asked of a job in each state."""


@dataclass(frozen=True)
class JobPageState:
    """What the page of a job shows.

    Attributes:
        last_event: the number of the newest event in it.
        built: the figures of the latest build of the model.
    """

    job: Job
    progress: Progress | None
    summary: JobSummary | None
    last_event: int
    built: Mapping[str, Any] | None = None

    @cached_property
    def built_times(self) -> BuiltTimes | None:
        """The times of the builds and plans of the model."""
        return None if self.built is None else built_times(self.built)

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """What can be asked of the job now."""
        return ACTIONS[self.job.state]

    @property
    def only_task(self) -> TaskSummary | None:
        """The result of the job's only function; None before its end, or if there are several."""
        tasks = self.summary.tasks if self.summary is not None else ()
        return tasks[0] if len(tasks) == 1 else None

    @property
    def best_s(self) -> float | None:
        """The best latency of the only function, or of the function that improved last."""
        if self.only_task is not None:
            return self.only_task.best_latency_s
        return self.progress.best_latency_s if self.progress is not None and self.summary is None else None

    @property
    def untuned_s(self) -> float | None:
        """The latency of the same function without tuning."""
        if self.only_task is not None:
            return self.only_task.untuned_latency_s
        return self.progress.untuned_latency_s if self.progress is not None and self.summary is None else None

    @property
    def trials(self) -> int | None:
        """The number of trials so far."""
        if self.summary is not None:
            return sum(task.trials for task in self.summary.tasks)
        return None if self.progress is None else self.progress.trials_done

    @property
    def elapsed_s(self) -> float | None:
        """How long its latest run took so far."""
        if self.summary is not None:
            return self.summary.seconds.get("total")
        return None if self.progress is None else self.progress.elapsed_s

    @property
    def time_bars(self) -> list[TimeBar]:
        """Where the seconds of its latest run went, as far as it is known."""
        if self.summary is not None:
            return time_bars(self.summary.seconds, self.elapsed_s)
        return [] if self.progress is None else time_bars(self.progress.seconds, self.elapsed_s)

    @property
    def failures(self) -> list[tuple[str, int]]:
        """Failed trials by reason, most frequent first."""
        found: dict[str, int] = {}
        for task in self.summary.tasks if self.summary is not None else ():
            for reason, number in task.failures.items():
                found[reason] = found.get(reason, 0) + number
        if self.summary is None and self.progress is not None:
            found = self.progress.failures
        return sorted(found.items(), key=lambda each: (-each[1], each[0]))

    @property
    def is_live(self) -> bool:
        """Whether more can happen, apart from the summary, which follows the end of a job."""
        return self.job.state is not JobState.FINISHED

    @property
    def name(self) -> str:
        """The name of its first task, and how many others there are."""
        return job_name(self.job)


def job_name(job: Job) -> str:
    """The name of a job's first task, and how many others there are."""
    others = len(job.spec.tasks) - 1
    return job.spec.tasks[0].name + (f" and {others} more" if others else "")


def read_state(jobs: JobRepository, events: EventRepository, tenant: str, job_id: str) -> JobPageState:
    """The state of a job. Raises NotFound."""
    last_event = events.last_sequence(tenant, job_id)  # first, so that the page's stream repeats what is newer
    newest = [events.latest(tenant, job_id, kind) for kind in ("progress", "summary", MODEL_BUILT)]
    found = after_events(JobPageState(jobs.get(tenant, job_id), None, None, 0), [e for e in newest if e])
    return replace(found, last_event=last_event)


def refreshed(jobs: JobRepository, tenant: str, state: JobPageState, events: list[Event]) -> JobPageState:
    """The state after more events, with the job's row as it is now; the last known row if the job was deleted."""
    found = after_events(state, events)
    try:
        return replace(found, job=jobs.get(tenant, state.job.job_id))
    except NotFound:
        return found


def after_events(state: JobPageState, events: list[Event]) -> JobPageState:
    """The state after more events of the job."""
    progress, summary, built = state.progress, state.summary, state.built
    for event in events:
        if event.kind == "progress":
            progress = progress_of(event) or progress
        elif event.kind == "summary":
            summary = _summary(event) or summary
        elif event.kind == MODEL_BUILT:
            built = event.data if built_times(event.data) is not None else built
    return JobPageState(state.job, progress, summary, events[-1].sequence if events else state.last_event, built)


def progress_of(event: Event) -> Progress | None:
    """The progress in an event; None if another version of tunefarm wrote it in another form."""
    try:
        return Progress.model_validate(event.data)
    except ValidationError:
        return None


def _summary(event: Event) -> JobSummary | None:
    try:
        return JobSummary.model_validate(event.data)
    except ValidationError:
        return None
