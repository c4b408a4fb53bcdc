"""Progress of a running job, and the summary of a finished one."""

from collections.abc import Mapping
from typing import Final, Literal, Self

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.other_versions import read_known
from tunefarm_schemas.roofline import Roofline
from tunefarm_schemas.tuning.job import JobOutcome, StopReason
from tunefarm_schemas.views.jobs.progress import TaskTime

MODEL_BUILT: Final = "model_built"
"""Kind of the event of a job with the figures of its model, which follows each build of it."""

Stage = Literal["starting", "waiting", "searching", "verifying", "exporting", "finished"]

_UNKNOWN: Final[Mapping[str, object]] = {
    "stage": "", "task_name": "", "elapsed_s": 0.0, "trials_done": 0, "trials_budget": 0, "best_latency_s": None,
    "untuned_latency_s": None, "trials_per_s": 0.0, "seconds_left": None,
}  # fmt: skip
"""The values of fields without a default, for an event that lacks them."""


class Progress(Frozen):
    """A snapshot of a running job. Latencies are of the task that improved last."""

    stage: str
    """A ``Stage``, or one of another version."""
    task_name: str
    elapsed_s: float
    trials_done: int
    trials_budget: int
    best_latency_s: float | None
    untuned_latency_s: float | None
    """Rough, or an estimate, while ``untuned_is_rough``."""
    trials_per_s: float
    seconds_left: float | None
    failures: dict[str, int] = Field(default_factory=dict)
    device_seconds: float = 0.0
    """Lane time of this run's candidates, for building and running."""
    model_rank_accuracy: float | None = None
    """Share of pairs of a recent and an earlier trial that the model ordered correctly; 0.5 is chance."""
    untuned_is_rough: bool = False
    """Whether the untuned latency comes from one call under load, or from an estimate, and not from a comparison."""
    doing: str = ""
    """Text of the current verification step; ``seconds_left`` then estimates the time until verification ends."""
    waits_for: str = ""
    """Text of what the device waits for; empty while it works, or if unknown."""
    tasks: tuple[TaskTime, ...] = ()
    """The tasks of a job of a model; empty for others."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Of this run, as in ``JobSummary``: start and verify in wall time; build, wait and run summed over lanes."""

    @classmethod
    def of(cls, data: Mapping[str, object]) -> Self:
        """Read the data of an event of any version, for a display.

        Fields that are missing, null or of another type are unknown; further fields are ignored.
        """
        return read_known(cls, _UNKNOWN, data)


class Improvement(Frozen):
    """A new incumbent.

    With ``is_verified`` it is the recorded schedule. Its latency in fresh processes may exceed earlier ones.
    """

    elapsed_s: float
    trials: int
    latency_s: float
    trace: str
    is_verified: bool = False


class ModelAccuracy(Frozen):
    """How well the cost model ranked ``new`` unseen trials among all ``known`` ones.

    ``share`` is the share of ``pairs`` of a new and an earlier trial, without ties, that it ordered correctly.
    """

    known: int
    new: int
    pairs: int
    share: float


class ScheduleTime(Frozen):
    """The latency of one schedule; a lower bound, ``at_least_s``, if timing stopped early; or the failure."""

    latency_s: float | None = None
    at_least_s: float | None = None
    failure: str = ""
    timed: Literal["", "in the search", "side by side", "in fresh processes"] = ""


Winner = Literal["search", "untried", "untuned"]
"""A schedule that a search or an earlier job found, the one that is chosen without a trial, or none."""


class TaskSummary(Frozen):
    """The result of one task. ``best_latency_s``, record and artifact belong to the schedule that ships."""

    name: str
    exploration_id: str
    best_latency_s: float | None
    untuned_latency_s: float | None
    interval_s: tuple[float, float] | None
    record_id: str | None
    artifact_id: str | None
    trials: int
    """Trials of all runs of the job."""
    trials_in_store: int
    """Trials of the exploration, by all jobs."""
    stop_reason: StopReason | None
    improvements: tuple[Improvement, ...]
    """Of the latest run of the job; ``Improvement.trials`` counts that run's trials."""
    failures: dict[str, int]
    """Failures by reason, over all runs of the job."""
    first_failure_message: str
    answered_from_store: bool
    was_busy: bool = False
    """Whether the record was measured while other processes used the device."""
    samples_s: tuple[float, ...] = ()
    """Seconds per call, for a job of kind ``measure``."""
    trials_in_run: int | None = None
    """Trials of the latest run of the job; None in summaries of earlier versions, whose ``trials`` count that run."""
    run_best: ScheduleTime | None = None
    """The fastest schedule that the job itself tried, if another one ships."""
    store_best: ScheduleTime | None = None
    """The schedule that ships, if the job itself did not try it."""
    seeds: tuple[ScheduleTime, ...] = ()
    """One for each seed trace of the job."""
    model_accuracy: tuple[ModelAccuracy, ...] = ()
    """One for each training of the latest run's model."""
    untuned_is_estimate: bool = False
    """Whether the latency of a slow untuned function was extrapolated from part of its loop iterations."""
    weight: float = 1.0
    """Number of times the model calls it."""
    floating_point_operations: int = 0
    """Of one call; 0 if unknown."""
    winner: Winner | None = None
    """Where the schedule comes from that ships; None without a record."""
    untried_latency_s: float | None = None
    """Latency in the search of the schedule that was chosen without a trial; None if it was not timed."""
    roofline: Roofline | None = None
    """Of one call on the device that measured; None if a peak of it is unknown."""

    @property
    def trials_of_latest_run(self) -> int:
        """Trials of the latest run of the job."""
        return self.trials if self.trials_in_run is None else self.trials_in_run


class JobSummary(Frozen):
    """The result of a job. ``outcome`` is None if it was interrupted and can be resumed.

    ``seconds`` are of the latest run: total, start, search and verify in wall time; build, wait and run summed over
    lanes; and ``first_measured``, the moment of the first timing.
    """

    job_id: str
    outcome: JobOutcome | None
    message: str
    tasks: tuple[TaskSummary, ...]
    seconds: dict[str, float]
    of_model: bool = False
    """Whether the tasks are those of one model."""
