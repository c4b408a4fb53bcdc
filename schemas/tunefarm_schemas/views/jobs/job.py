"""Created jobs, and jobs side by side."""

from pydantic import BaseModel, ConfigDict

from tunefarm_schemas.tuning.job import Job, JobOutcome, JobState


class NewJob(Job):
    """A job with ``notes`` on how its target was interpreted and what it waits for."""

    notes: tuple[str, ...] = ()


class ComparisonView(BaseModel):
    """The configuration of the parts of a comparison."""

    model_config = ConfigDict(frozen=True)


class CoursePoint(ComparisonView):
    """The best latency of a task after a number of trials and seconds of its job's latest run."""

    trials: int
    elapsed_s: float
    latency_s: float


class TaskFigures(ComparisonView):
    """What a job came to for one task. ``course`` is of its latest run.

    ``was_busy`` says that other processes used the device while the interval was measured.
    """

    target_id: str
    device_class_id: str | None
    best_latency_s: float | None
    interval_s: tuple[float, float] | None
    was_busy: bool
    untuned_latency_s: float | None
    trials: int
    failures: dict[str, int]
    record_id: str | None
    course: tuple[CoursePoint, ...]


class ComparedTask(ComparisonView):
    """A workload of two jobs; None for a job that does not have it.

    Attributes:
        ratio: latency in the first job divided by that in the second: above 1 the second is faster.
        intervals_overlap: whether their intervals do, so that the difference may be noise; None without two intervals
            of one device class.
    """

    name: str
    workload_id: str
    first: TaskFigures | None
    second: TaskFigures | None
    ratio: float | None
    intervals_overlap: bool | None


class ComparedJob(ComparisonView):
    """One of two jobs."""

    job_id: str
    name: str
    state: JobState
    outcome: JobOutcome | None
    created_at: str
    trials: int | None
    elapsed_s: float | None
    failures: dict[str, int]


class RequestDifference(ComparisonView):
    """A field in which the requests of two jobs differ, as text."""

    field: str
    first: str
    second: str


class JobComparison(ComparisonView):
    """Two jobs side by side."""

    first: ComparedJob
    second: ComparedJob
    tasks: tuple[ComparedTask, ...]
    differences: tuple[RequestDifference, ...]
