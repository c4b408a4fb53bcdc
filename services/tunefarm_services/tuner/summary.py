"""What a person is shown while a job runs and when it has ended."""

from typing import Literal

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.job import JobOutcome, StopReason

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
    """Rough, or an estimate, while ``untuned_is_rough``."""
    trials_per_s: float
    seconds_left: float | None
    failures: dict[str, int] = Field(default_factory=dict)
    device_seconds: float = 0.0
    """Seconds that candidates of this run held a lane, being built and being run."""
    model_rank_accuracy: float | None = None
    """Share of pairs, of a recent trial and an earlier one, that the model ordered right; 0.5 is chance."""
    untuned_is_rough: bool = False
    """Whether the untuned latency was seen once, beside other work, and not yet timed side by side, or is an estimate
    because a call takes long."""
    doing: str = ""
    """The step of verifying that it is at, for people; ``seconds_left`` is then an estimate to its end."""
    waits_for: str = ""
    """What its device waits for, for people; empty while it works, and where that is not known."""


class Improvement(Frozen):
    """A new incumbent: when, after how many trials, how fast, and its trace.

    ``is_verified``: what was recorded in the end, by its time in fresh processes, which may be longer than before.
    """

    elapsed_s: float
    trials: int
    latency_s: float
    trace: str
    is_verified: bool = False


class ModelAccuracy(Frozen):
    """How well the cost model placed ``new`` trials that it had not seen among all ``known`` ones.

    ``share`` is that of the ``pairs`` that it ordered right, of a new trial and an earlier one, ties left out; 0.5 is
    chance.
    """

    known: int
    new: int
    pairs: int
    share: float


class ScheduleTime(Frozen):
    """What one schedule took, in seconds.

    ``at_least_s`` is a bound for one whose timing ended early, ``failure`` why there is neither.
    """

    latency_s: float | None = None
    at_least_s: float | None = None
    failure: str = ""
    timed: Literal["", "in the search", "side by side", "in fresh processes"] = ""


class TaskSummary(Frozen):
    """How one task of a job ended. ``best_latency_s``, the record and the artifact are of what ships."""

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
    """Trials of the exploration, by whichever job."""
    stop_reason: StopReason | None
    improvements: tuple[Improvement, ...]
    """Of the latest run of the job, whose trials they count."""
    failures: dict[str, int]
    """How often each reason occurred, over all runs of the job."""
    first_failure_message: str
    answered_from_store: bool
    was_busy: bool = False
    """Whether its record was taken while other processes had the device as well."""
    samples_s: tuple[float, ...] = ()
    """Seconds per call of a schedule that was measured as given."""
    trials_in_run: int | None = None
    """Trials of the latest run of the job; None in what an earlier version wrote, where ``trials`` are those."""
    run_best: ScheduleTime | None = None
    """The fastest schedule that the job itself tried, where something else ships."""
    store_best: ScheduleTime | None = None
    """The schedule that ships, where the job itself did not try it."""
    seeds: tuple[ScheduleTime, ...] = ()
    """One for each seed trace of the job."""
    model_accuracy: tuple[ModelAccuracy, ...] = ()
    """One for each time that the latest run's model learned."""
    untuned_is_estimate: bool = False
    """Whether the untuned function takes so long that its latency follows from a part of its steps."""

    @property
    def trials_of_latest_run(self) -> int:
        """Trials of the latest run of the job."""
        return self.trials if self.trials_in_run is None else self.trials_in_run


class JobSummary(Frozen):
    """How a job ended. ``outcome`` is None when it was interrupted and can be resumed.

    ``seconds`` are of the latest run: total, start, search, verify on the wall; build, wait, run over lanes;
    and ``first_measured``, when the first candidate had a time.
    """

    job_id: str
    outcome: JobOutcome | None
    message: str
    tasks: tuple[TaskSummary, ...]
    seconds: dict[str, float]
