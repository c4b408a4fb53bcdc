"""Candidates to measure, and their results."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import Environment
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Abi, TensorArgument

MAX_SECONDS: Final = 1e9
"""Longer times are implausible; sums of many of them would not be finite."""
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]
"""A plausible duration."""
ElapsedSeconds: TypeAlias = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
"""The same, or no time at all."""
Share: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class TrialState(StrEnum):
    """Whether the latest attempt of a trial has a result."""

    DISPATCHED = "dispatched"
    DONE = "done"


class Purpose(StrEnum):
    """The purpose of a measurement. A lane measures with the full protocol what is not for a search."""

    SEARCH = "search"
    VERIFY = "verify"


class CandidateOrigin(StrEnum):
    """How the search produced a candidate."""

    RANDOM = "random"
    EVOLVED = "evolved"
    NEIGHBOUR = "neighbour"
    SEED = "seed"
    STORE = "store"
    UNTRIED = "untried"
    """The schedule that was chosen from the analytical cost, before anything was measured."""


class Candidate(Frozen):
    """A trace to be measured.

    ``module_hash`` is the structural hash of the scheduled function, by which duplicates are detected. ``features`` are
    the inputs of the cost model; ``predicted_score`` is its prediction before the measurement (higher is better).
    """

    exploration_id: str
    number: int
    trace: Trace
    module_hash: str
    origin: CandidateOrigin
    predicted_score: float | None = None
    predicted_build_s: float | None = None


class MeasureTask(Frozen):
    """Everything that a farm must know about an exploration before it receives candidates of it.

    ``input_examples`` holds the content of every example that ``input_specs`` names.
    """

    exploration_id: str
    workload_id: str
    module_json: str = Field(repr=False)
    target: str
    num_cores: int
    protocol_id: str
    abi: Abi
    is_scheduled: bool = False
    """The module is already scheduled: there is no other form to compare it with, so its outputs must only be finite
    numbers."""
    input_specs: tuple[InputSpec, ...] = ()
    input_examples: tuple[InputExample, ...] = Field(default=(), repr=False)
    callees: tuple[str, ...] = ()
    """Functions outside of the module that it may call, as allowed when its job was accepted."""


class Dispatch(Frozen):
    """One attempt at a candidate. A result counts only with the nonce and fence of a live dispatch."""

    dispatch_id: str
    nonce: str
    fence: int
    attempt: int = Field(ge=1, le=2)
    purpose: Purpose
    candidate: Candidate


class Stages(Frozen):
    """How long each stage of an attempt took, in seconds of wall time."""

    start_s: ElapsedSeconds = 0.0
    build_s: ElapsedSeconds = 0.0
    wait_s: ElapsedSeconds = 0.0
    run_s: ElapsedSeconds = 0.0

    @property
    def device_s(self) -> float:
        """Seconds that the attempt occupied a lane's processor or device: building and running."""
        return self.build_s + self.run_s


class Timing(Frozen):
    """A candidate that ran correctly. ``latency_s`` is the median over ``samples_s`` (seconds per call).

    ``is_estimate``: nothing was called whole; its samples follow from a part of its steps, as of an untuned function
    whose calls take long.
    """

    kind: Literal["timing"] = "timing"
    latency_s: Seconds
    samples_s: tuple[Seconds, ...]
    is_estimate: bool = False

    @model_validator(mode="after")
    def _lies_among_its_samples(self) -> Self:
        if self.samples_s and not min(self.samples_s) <= self.latency_s <= max(self.samples_s):
            raise ValueError("latency_s is not the median of samples_s")
        return self


class Stopped(Frozen):
    """A correct candidate whose timing ended early, because it is slower than the incumbent.

    ``at_least_s`` is a censored label: a lower bound of the true latency.
    """

    kind: Literal["stopped"] = "stopped"
    at_least_s: Seconds


class Failed(Frozen):
    """A candidate without a timing."""

    kind: Literal["failed"] = "failed"
    failure: TrialFailure


Result = Annotated[Timing | Stopped | Failed, Field(discriminator="kind")]


_BROKEN_OFF: Final = frozenset({FailureReason.CANCELED, FailureReason.DEVICE_LOST, FailureReason.CRASH})


class Measurement(Frozen):
    """The result of one attempt."""

    dispatch_id: str
    nonce: str
    fence: int
    exploration_id: str
    candidate_number: int
    attempt: int
    purpose: Purpose
    result: Result
    stages: Stages
    worst_error: float | None = None
    """Largest error of the output in units of the tolerance; at most 1 is correct. None if nothing was compared."""
    inputs_checked: int = 0
    """Number of input sets on which the output was compared: one for every candidate, three for a new incumbent."""
    peak_memory_bytes: int = 0
    device_fingerprint: str = Field(default="", pattern="^[^\\x00]*$")  # PostgreSQL cannot store NUL
    environment: Environment = Environment()
    untuned_about_s: Seconds | None = None
    """The untuned function's latency in its reference run, next to other work: an approximate figure for display."""

    @property
    def came_to_an_end(self) -> bool:
        """Whether the result is about the candidate and needs no retry.

        A timed candidate is measured again if its device slowed down. If that is canceled, or lost with its worker, the
        first timing stays.
        """
        return not (isinstance(self.result, Failed) and self.result.failure.reason in _BROKEN_OFF)

    @classmethod
    def answering(cls, dispatch: Dispatch, result: Result, stages: Stages | None = None, **fields: Any) -> Self:
        """Build the result of ``dispatch``, with the ids that its sender expects and further ``fields``."""
        return cls(
            dispatch_id=dispatch.dispatch_id,
            nonce=dispatch.nonce,
            fence=dispatch.fence,
            exploration_id=dispatch.candidate.exploration_id,
            candidate_number=dispatch.candidate.number,
            attempt=dispatch.attempt,
            purpose=dispatch.purpose,
            result=result,
            stages=stages or Stages(),
            **fields,
        )


class ComparisonOrder(Frozen):
    """Time several schedules of one workload alternately, in one process on a quiet device.

    A trace of None is the untuned function. Each is first checked on three inputs.
    """

    exploration_id: str
    traces: tuple[Trace | None, ...] = Field(min_length=1)
    seconds_each: float = Field(default=0.3, gt=0)


class Comparison(Frozen):
    """One result for each trace of the order, in the same order."""

    results: tuple[Result, ...]


class ExportOrder(Frozen):
    """Compile one schedule to a shared library and time that library in several fresh processes.

    ``likely_s`` is the latency of a call elsewhere; a process that measures more repeats a few times. With
    ``beside_untuned`` the untuned function is timed in the same processes, alternating with the schedule.
    """

    exploration_id: str
    trace: Trace | None
    processes: int = Field(default=7, gt=0)
    likely_s: float | None = Field(default=None, gt=0)
    beside_untuned: bool = False


class Exported(Frozen):
    """A shared library and its latency, in seconds, in each fresh process.

    ``entry`` and ``pack_entry`` are the functions it exports; ``packed_arguments`` replace the plain ones of ``entry``
    if the ABI is packed. ``untuned_latencies_s`` are the latencies of the untuned function in the same processes, if
    requested and possible. ``foreign_load`` is the share of the time in which other processes kept the kernel's threads
    from a core.
    """

    kind: Literal["exported"] = "exported"
    library: bytes = Field(repr=False)
    entry: str
    pack_entry: str | None = None
    packed_arguments: tuple[TensorArgument, ...] = ()
    process_latencies_s: tuple[Seconds, ...] = Field(min_length=1)
    untuned_latencies_s: tuple[Seconds, ...] = ()
    foreign_load: Share = 0.0


ExportResult = Annotated[Exported | Failed, Field(discriminator="kind")]
