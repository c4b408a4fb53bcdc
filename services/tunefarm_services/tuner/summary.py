"""What a person is shown while a job runs and when it has ended."""

from typing import Literal

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.job import JobOutcome, StopReason

Stage = Literal["starting", "waiting", "searching", "verifying", "exporting", "finished"]


class Progress(Frozen):
    """One look at a running job. Latencies are of the task that improved last."""

    stage: Stage
    task_name: str
    elapsed_s: float
    trials_done: int
    trials_budget: int
    best_latency_s: float | None
    untuned_latency_s: float | None
    """Rough while ``untuned_is_rough``."""
    trials_per_s: float
    seconds_left: float | None
    failures: dict[str, int] = Field(default_factory=dict)
    device_seconds: float = 0.0
    """Seconds that candidates of this run held a lane, being built and being run."""
    model_rank_accuracy: float | None = None
    untuned_is_rough: bool = False
    """Whether the untuned latency was seen once, beside other work, and not yet timed side by side."""
    waits_for: str = ""
    """What its device waits for, for people; empty while it works, and where that is not known."""


class Improvement(Frozen):
    """A new incumbent: when, after how many trials, how fast, and its trace."""

    elapsed_s: float
    trials: int
    latency_s: float
    trace: str


class TaskSummary(Frozen):
    """How one task of a job ended."""

    name: str
    exploration_id: str
    best_latency_s: float | None
    untuned_latency_s: float | None
    interval_s: tuple[float, float] | None
    record_id: str | None
    artifact_id: str | None
    trials: int
    """Trials dispatched by this run of the job."""
    trials_in_store: int
    stop_reason: StopReason | None
    improvements: tuple[Improvement, ...]
    failures: dict[str, int]
    first_failure_message: str
    answered_from_store: bool
    was_busy: bool = False
    """Whether its record was taken while other processes had the device as well."""
    samples_s: tuple[float, ...] = ()
    """Seconds per call of a schedule that was measured as given."""


class JobSummary(Frozen):
    """How a job ended. ``outcome`` is None when it was interrupted and can be resumed.

    ``seconds`` splits the wall and the lanes' time: total, start, search, build, wait, run, verify, first_measured.
    """

    job_id: str
    outcome: JobOutcome | None
    message: str
    tasks: tuple[TaskSummary, ...]
    seconds: dict[str, float]
