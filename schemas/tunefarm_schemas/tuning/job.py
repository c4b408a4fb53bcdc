"""Jobs and explorations."""

from enum import StrEnum
from typing import Literal

from pydantic import ConfigDict, Field

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen, canonical_json, digest
from tunefarm_schemas.tuning.input_spec import InputSpec
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_schemas.tuning.workload import Abi, Task


class JobState(StrEnum):
    """State of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"


class JobOutcome(StrEnum):
    """How a finished job ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class StopReason(StrEnum):
    """Why an exploration stopped."""

    TRIALS = "trials"
    SECONDS = "seconds"
    PLATEAU = "plateau"
    TARGET_LATENCY = "target_latency"
    DEVICE_SECONDS = "device_seconds"
    DEADLINE = "deadline"
    SPACE_EXHAUSTED = "space_exhausted"
    REQUESTED = "requested"
    """The user asked the job to finish with its results so far."""
    SMALL_SHARE = "small_share"
    """The task takes too small a share of its model's time."""
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"


class Effort(Frozen):
    """How long a job may search, over all its tasks. The first bound that is reached ends it."""

    trials: int = Field(gt=0)
    seconds: float | None = Field(default=None, gt=0)
    plateau_trials: int | None = Field(default=None, gt=0)
    target_latency_s: float | None = Field(default=None, gt=0)
    device_seconds: float | None = Field(default=None, gt=0)
    """Seconds that candidates may spend on lanes, building and running, summed over all of them."""


class EffortSpent(Frozen):
    """What an exploration has consumed so far."""

    trials: int = 0
    seconds: float = 0.0
    stop_reason: StopReason | None = None


Strategy = Literal["random", "evolutionary", "tvm", "replay"]

JobKind = Literal["tune", "measure"]
"""``tune`` searches for the fastest schedule of each task. ``measure`` measures each task's workload once as it is,
as a finished schedule; that produces measurements and never a record."""


class ExplorationKey(Frozen):
    """Identifies an exploration. Jobs with the same key share their trials."""

    tenant: str
    workload_id: str
    target_id: str
    device_class_id: str
    code_generator: str
    protocol_id: str
    space_id: str
    abi: Abi
    fresh_for: str = ""
    """Id of the job that requested to ignore the store, which keeps its trials separate; empty otherwise. A job that
    continues its search shares them."""

    @property
    def exploration_id(self) -> str:
        """Digest of the key."""
        return digest(canonical_json(self.model_dump()))

    @property
    def place_in_order(self) -> str:
        """Sorts explorations, in the same order for every tenant."""
        return canonical_json(self.model_dump(exclude={"tenant"}))


class Exploration(Frozen):
    """All trials of a key, and their cost."""

    exploration_id: str
    key: ExplorationKey
    spent: EffortSpent
    best_latency_s: float | None
    verified_trials: int = 0
    """Number of trials when the fastest were last verified; later ones may be faster."""

    @property
    def is_verified(self) -> bool:
        """Whether no trial was made since the fastest were verified."""
        return self.spent.trials <= self.verified_trials


class JobSpec(Frozen):
    """The request of a job. ``tasks`` name workloads and targets that the store already contains."""

    tasks: tuple[Task, ...] = Field(min_length=1)
    effort: Effort
    strategy: Strategy = "evolutionary"
    space: Space = Space()
    seed_traces: tuple[Trace, ...] = ()
    protocol_id: str
    abi: Abi = "stable"
    seed: int = 0
    fresh: bool = False
    priority: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    device_class_id: str | None = None
    """Where to measure; if None, the tuner chooses."""
    kind: JobKind = "tune"
    deadline_s: float | None = Field(default=None, gt=0)
    """Seconds after its creation at which the job stops searching and finishes with its results so far."""
    input_specs: tuple[InputSpec, ...] = ()
    """Contents of arguments, by name, in every task that has them; default contents for all others."""
    callees: tuple[str, ...] = ()
    """Functions outside of their modules that the tasks may call, as allowed when the job was accepted."""
    of_model: bool = False
    """Whether the tasks are those of one model, whose time is the sum of their weights times their latencies."""
    fresh_of: str = ""
    """Id of the fresh job whose separate trials this fresh job continues; empty for its own."""
    untuned_functions: tuple[str, ...] = ()
    """Functions of the same modules that are not tasks, because they are Relax and not TIR."""


class Job(Frozen):
    """A job as stored. Times are RFC 3339, UTC."""

    job_id: str
    tenant: str
    spec: JobSpec
    state: JobState
    outcome: JobOutcome | None
    message: str
    created_at: str
    finished_at: str | None

    @property
    def is_finished(self) -> bool:
        """Whether no further work is done for it."""
        return self.state is JobState.FINISHED


class Event(Frozen):
    """Something that happened to a job, with its sequence number."""

    # Answers always contain the data, which readers of answers do not require.
    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    sequence: int
    job_id: str
    kind: str
    at: str
    data: dict[str, object] = Field(default_factory=dict)

    @property
    def ends_job(self) -> bool:
        """Whether this is the last event of the job: the summary with an outcome."""
        return self.kind == "summary" and self.data.get("outcome") is not None


def require_space_for(strategy: Strategy, space: Space) -> None:
    """Raise ``BadInput`` for a strategy that cannot search the requested space."""
    if strategy == "tvm" and not space.automatic:
        fix = "Use evolutionary or random, or leave the space out."
        raise BadInput("strategy", "tvm searches the space of TVM's own rules only.", fix)
