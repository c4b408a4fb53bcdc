"""Messages between a lane and its children: JSON of frozen types, validated on arrival."""

from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter

from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_schemas.tuning.least_work import LeastWork
from tunefarm_schemas.tuning.measurement import ElapsedSeconds, Result, Seconds
from tunefarm_schemas.tuning.workload import Abi, TensorArgument
from tunefarm_workers.conversation.argument import Argument, Distribution


class TaskOrder(Frozen):
    """The state that a task process prepares for the candidates of one exploration."""

    module_json: str = Field(repr=False)
    target: str
    num_cores: int
    abi: Abi
    callees: tuple[str, ...] = ()
    """Functions outside of the module that it may call."""
    seed: int
    distribution: Distribution
    input_specs: tuple[InputSpec, ...] = ()
    input_examples: tuple[InputExample, ...] = Field(default=(), repr=False)


class TaskReady(Frozen):
    """A task process can be forked from now on."""

    kind: Literal["ready"] = "ready"
    arguments: tuple[Argument, ...]
    input_set_s: float
    """How long it took to make one set of inputs."""
    least_work: LeastWork = LeastWork()


class TaskRefused(Frozen):
    """A task process rejected the module."""

    kind: Literal["refused"] = "refused"
    field: str
    problem: str
    fix: str


FromTaskProcess = Annotated[TaskReady | TaskRefused, Field(discriminator="kind")]


class CandidateOrder(Frozen):
    """One attempt. ``thorough`` requests the full protocol regardless of the incumbent, and all sets of inputs."""

    trace: str | None = Field(repr=False)
    incumbent_s: float | None
    thorough: bool
    cold_cache: bool


class Built(Frozen):
    """Compiled to machine code; the first call follows."""

    kind: Literal["built"] = "built"
    build_s: ElapsedSeconds


class Warm(Frozen):
    """Called once, first output sent; waits for a quiet device."""

    kind: Literal["warm"] = "warm"


class Ran(Frozen):
    """The timing. With ``checks_follow`` the child then calls the kernel on the other sets of inputs."""

    kind: Literal["ran"] = "ran"
    result: Annotated[Result, Field(discriminator="kind")]
    run_s: ElapsedSeconds
    checks_follow: bool
    hopeless: bool = False
    """Stopped before it waited for a quiet device."""
    peak_memory_bytes: int = 0
    apart: bool = True
    """Whether each thread had a physical core of its own."""


class Checked(Frozen):
    """All sets of inputs were run."""

    kind: Literal["checked"] = "checked"


class Broken(Frozen):
    """A failure that the child itself reports."""

    kind: Literal["broken"] = "broken"
    reason: FailureReason
    message: str


FromCandidate = Annotated[Built | Warm | Ran | Checked | Broken, Field(discriminator="kind")]


class Go(Frozen):
    """The device is quiet: time the kernel, after at most ``tries`` attempts to get a physical core per thread."""

    incumbent_s: float | None
    tries: int


class ReferenceOrder(Frozen):
    """Run the untuned function on the first ``sets`` sets of inputs."""

    sets: int
    widen: bool


class ReferenceStep(Frozen):
    """The outputs on one set of inputs were sent, in the workload's types or with floats widened to 64 bits."""

    kind: Literal["step"] = "step"
    set_number: int
    double: bool


class ReferenceBroken(Frozen):
    """The untuned function, with ``double`` its widened form, did not build or run."""

    kind: Literal["broken"] = "broken"
    double: bool
    message: str


class ReferenceFigures(Frozen):
    """Processor time to build the untuned function as written, and the approximate latency of a call."""

    kind: Literal["figures"] = "figures"
    build_s: Seconds
    latency_s: Seconds


class ReferenceTimed(Frozen):
    """The approximate latency of the untuned function.

    Of a long function, an estimate and the child's first message; otherwise a timing beside other work and its last.
    """

    kind: Literal["timed"] = "timed"
    latency_s: Seconds


FromReference = Annotated[
    ReferenceStep | ReferenceBroken | ReferenceFigures | ReferenceTimed, Field(discriminator="kind")
]


class ComparisonPlan(Frozen):
    """Schedules to time in turn in one process.

    Compiling them ``side_by_side`` is faster; one after the other shows which of them crashed the process. If calls of
    the untuned function take long, only the elements of its output in ``samples`` are computed, for each set of inputs.
    """

    traces: tuple[str | None, ...] = Field(repr=False)
    cold_cache: bool
    side_by_side: bool
    samples: tuple[tuple[int, ...], ...] = ()


class Compiled(Frozen):
    """One schedule of a comparison is built, and its outputs on all sets of inputs were sent.

    With ``leading``, only the samples of the plan were computed, each with all elements that share its index in so many
    leading dimensions; its times are estimates.
    """

    kind: Literal["compiled"] = "compiled"
    index: int
    failure: Broken | None
    leading: int | None = Field(default=None, ge=1)


class RoundOrder(Frozen):
    """The device is quiet: time the schedules at these places of the plan in turn. ``tries`` as in ``Go``."""

    places: tuple[int, ...]
    tries: int


class Round(Frozen):
    """Seconds per call of each schedule of one round, in the order of its places."""

    kind: Literal["round"] = "round"
    samples_s: tuple[tuple[Seconds, ...], ...]


FromComparison = Annotated[Compiled | Round, Field(discriminator="kind")]


class LinkOrder(Frozen):
    """Compile one schedule to a shared library in the child's own folder."""

    task: TaskOrder
    trace: str | None = Field(repr=False)
    folder: str


class Linked(Frozen):
    """The library is linked; its bytes are the next message."""

    kind: Literal["linked"] = "linked"
    entry: str
    pack_entry: str | None
    packed_arguments: tuple[TensorArgument, ...]


FromLinker = Annotated[Linked | Broken, Field(discriminator="kind")]


class InputsOrder(Frozen):
    """Make the first set of inputs for these arguments."""

    arguments: tuple[Argument, ...]
    seed: int
    distribution: Distribution
    input_specs: tuple[InputSpec, ...]
    input_examples: tuple[InputExample, ...] = Field(repr=False)

    @classmethod
    def of(cls, task: TaskOrder, arguments: tuple[Argument, ...]) -> Self:
        """Order the same inputs as that task holds."""
        return cls(
            arguments=arguments,
            seed=task.seed,
            distribution=task.distribution,
            input_specs=task.input_specs,
            input_examples=task.input_examples,
        )


from_task_process: TypeAdapter[TaskReady | TaskRefused] = TypeAdapter(FromTaskProcess)
from_candidate: TypeAdapter[Built | Warm | Ran | Checked | Broken] = TypeAdapter(FromCandidate)
from_reference: TypeAdapter[ReferenceStep | ReferenceBroken | ReferenceFigures | ReferenceTimed] = TypeAdapter(
    FromReference
)
from_comparison: TypeAdapter[Compiled | Round] = TypeAdapter(FromComparison)
from_linker: TypeAdapter[Linked | Broken] = TypeAdapter(FromLinker)


class DeviceChild(Frozen):
    """First message of the child that times the reference kernels."""

    code_generator: str


class KernelRequest(Frozen):
    """Time the reference kernels, thoroughly or in a few milliseconds."""

    depth: Literal["calibrate", "check"]
