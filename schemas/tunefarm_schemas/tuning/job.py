"""What users ask for, and what is done for it."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen, canonical_json, digest
from tunefarm_schemas.tuning.input_spec import InputSpec
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_schemas.tuning.workload import Abi, Task


class JobState(StrEnum):
    """Where a job is in its life."""

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
    """The job was asked to finish with what it had found."""
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"


class Effort(Frozen):
    """How much a job wants done, over all its tasks. Whichever bound is met first ends it."""

    trials: int = Field(gt=0)
    seconds: float | None = Field(default=None, gt=0)
    plateau_trials: int | None = Field(default=None, gt=0)
    target_latency_s: float | None = Field(default=None, gt=0)
    device_seconds: float | None = Field(default=None, gt=0)
    """Seconds that candidates may spend on lanes, being built and being run, added up over all of them."""


class EffortSpent(Frozen):
    """What an exploration has consumed so far."""

    trials: int = 0
    seconds: float = 0.0
    stop_reason: StopReason | None = None


Strategy = Literal["random", "evolutionary", "tvm", "replay"]

JobKind = Literal["tune", "measure"]
"""``tune`` searches for the fastest schedule of each task. ``measure`` takes each task's workload as scheduled already
and measures it once as it is; that gives measurements and never a record."""


class ExplorationKey(Frozen):
    """All that is tried for one of these is tried once."""

    tenant: str
    workload_id: str
    target_id: str
    device_class_id: str
    code_generator: str
    protocol_id: str
    space_id: str
    abi: Abi
    fresh_for: str = ""
    """Id of the job that asked to ignore the store, so that its trials stay apart; empty otherwise."""

    @property
    def exploration_id(self) -> str:
        """Digest of the key."""
        return digest(canonical_json(self.model_dump()))


class Exploration(Frozen):
    """Everything that was tried for a key, and what it took."""

    exploration_id: str
    key: ExplorationKey
    spent: EffortSpent
    best_latency_s: float | None
    verified_trials: int = 0
    """How many trials had been spent when the fastest were last verified; what came later may be faster."""

    @property
    def is_verified(self) -> bool:
        """Whether nothing was tried since the fastest were verified."""
        return self.spent.trials <= self.verified_trials


class JobSpec(Frozen):
    """What a job asks for. ``tasks`` name workloads and targets that the store already holds."""

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
    """Where to measure; None leaves the choice to the tuner."""
    kind: JobKind = "tune"
    deadline_s: float | None = Field(default=None, gt=0)
    """Seconds after its creation at which the job searches no further and ends with what it has."""
    input_specs: tuple[InputSpec, ...] = ()
    """What arguments hold, by name, in every task that has them; usual numbers for all others."""
    callees: tuple[str, ...] = ()
    """Functions outside of their modules that the tasks may call, as they were allowed when the job came in."""
    untuned_functions: tuple[str, ...] = ()
    """Functions that came in the same modules and are no tasks, for they are not TIR: those of Relax."""


class Job(Frozen):
    """A job as the store holds it. Times are RFC 3339, UTC."""

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
        """Whether nothing more is done for it."""
        return self.state is JobState.FINISHED


class Event(Frozen):
    """One thing that happened to a job, numbered in order."""

    sequence: int
    job_id: str
    kind: str
    at: str
    data: dict[str, object]


def require_space_for(strategy: Strategy, space: Space) -> None:
    """Raise ``BadInput`` for a strategy that would search another space than the one that was asked for."""
    if strategy == "tvm" and not space.automatic:
        fix = "Use evolutionary or random, or leave the space out."
        raise BadInput("strategy", "tvm searches the space of TVM's own rules only.", fix)
