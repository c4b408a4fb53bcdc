"""Candidates on their way to a device, and what comes back."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import Environment
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Abi, TensorArgument

Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A time that may have been measured."""


class TrialState(StrEnum):
    """Whether the latest attempt of a trial has a result."""

    DISPATCHED = "dispatched"
    DONE = "done"


class Purpose(StrEnum):
    """What a measurement is for."""

    SEARCH = "search"
    VERIFY = "verify"
    DRIFT = "drift"


class CandidateOrigin(StrEnum):
    """Where the search took a candidate from."""

    RANDOM = "random"
    EVOLVED = "evolved"
    NEIGHBOUR = "neighbour"
    SEED = "seed"
    STORE = "store"


class Candidate(Frozen):
    """A trace to be measured.

    ``module_hash`` is the structural hash of the scheduled function, by which repeats are recognised. ``features`` are
    the numbers the cost model saw; ``predicted_score`` is its opinion before the measurement (higher is better).
    """

    exploration_id: str
    number: int
    trace: Trace
    module_hash: str
    origin: CandidateOrigin
    predicted_score: float | None = None
    predicted_build_s: float | None = None


class MeasureTask(Frozen):
    """All that a farm must know once about an exploration before candidates of it arrive.

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
    """The module is a schedule already: there is no other form of it to compare with, so its outputs only have to be
    finite numbers."""
    input_specs: tuple[InputSpec, ...] = ()
    input_examples: tuple[InputExample, ...] = Field(default=(), repr=False)
    callees: tuple[str, ...] = ()
    """Functions outside of the module that it may call, as the door allowed them that its job came in by."""


class Dispatch(Frozen):
    """One attempt at a candidate. A result counts only with the nonce and fence of a live dispatch."""

    dispatch_id: str
    nonce: str
    fence: int
    attempt: int = Field(ge=1, le=2)
    purpose: Purpose
    candidate: Candidate


class Stages(Frozen):
    """Where one attempt's wall time went, in seconds."""

    start_s: float = 0.0
    build_s: float = 0.0
    wait_s: float = 0.0
    run_s: float = 0.0

    @property
    def device_s(self) -> float:
        """Seconds that the attempt held a lane's processor or device: building and running."""
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
    """A correct candidate whose timing ended early, known to be slower than the incumbent.

    ``at_least_s`` is a censored label: the true latency is believed to be no smaller than this bound.
    """

    kind: Literal["stopped"] = "stopped"
    at_least_s: Seconds


class Failed(Frozen):
    """A candidate that gave no time."""

    kind: Literal["failed"] = "failed"
    failure: TrialFailure


Result = Annotated[Timing | Stopped | Failed, Field(discriminator="kind")]


_BROKEN_OFF: Final = frozenset({FailureReason.CANCELED, FailureReason.DEVICE_LOST, FailureReason.CRASH})


class Measurement(Frozen):
    """What one attempt gave."""

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
    """Largest error of the output in units of the tolerance; at most 1 is correct. None when nothing was compared."""
    inputs_checked: int = 0
    """On how many sets of inputs the output was compared: one for every candidate, three for a new incumbent."""
    peak_memory_bytes: int = 0
    device_fingerprint: str = ""
    environment: Environment = Environment()
    untuned_about_s: float | None = None
    """The untuned function's latency as its reference run saw it beside other work: a rough figure to show."""

    @property
    def came_to_an_end(self) -> bool:
        """Whether the attempt says something of its candidate.

        What was timed is sent again when its device became slower. If that is called off, or lost with its worker, the
        first time stands.
        """
        return not (isinstance(self.result, Failed) and self.result.failure.reason in _BROKEN_OFF)

    @classmethod
    def answering(cls, dispatch: Dispatch, result: Result, stages: Stages | None = None, **told: Any) -> Self:
        """What ``dispatch`` gave, with the ids by which its sender knows it; ``told`` are further fields."""
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
            **told,
        )


class ComparisonOrder(Frozen):
    """Time several schedules of one workload in turn, interleaved, in one process on a quiet device.

    A trace of None stands for the untuned function. Each is checked on three inputs first.
    """

    exploration_id: str
    traces: tuple[Trace | None, ...] = Field(min_length=1)
    seconds_each: float = Field(default=0.3, gt=0)


class Comparison(Frozen):
    """One result for each trace of the order, in its order."""

    results: tuple[Result, ...]


class ExportOrder(Frozen):
    """Compile one schedule to a shared library and time that library in several fresh processes.

    ``likely_s`` is what one call took elsewhere; a process in which it takes longer looks again a few times. With
    ``beside_untuned`` the untuned function is timed in the same processes, in turn with the schedule.
    """

    exploration_id: str
    trace: Trace | None
    processes: int = Field(default=7, gt=0)
    likely_s: float | None = Field(default=None, gt=0)
    beside_untuned: bool = False


class Exported(Frozen):
    """A shared library and its latency, in seconds, in each fresh process.

    ``entry`` and ``pack_entry`` are the functions it exports; ``packed_arguments`` replace the plain ones of ``entry``
    when the ABI is packed. ``untuned_latencies_s`` is what the untuned function took in the same processes, where that
    was asked for and could be done. ``foreign_load`` is the share of the time for which others kept the kernel's
    threads from a core while they were timed.
    """

    kind: Literal["exported"] = "exported"
    library: bytes = Field(repr=False)
    entry: str
    pack_entry: str | None = None
    packed_arguments: tuple[TensorArgument, ...] = ()
    process_latencies_s: tuple[Seconds, ...]
    untuned_latencies_s: tuple[Seconds, ...] = ()
    foreign_load: float = Field(default=0.0, ge=0, le=1)


ExportResult = Annotated[Exported | Failed, Field(discriminator="kind")]
