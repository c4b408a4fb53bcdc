"""What a lane and its children say to each other: JSON of frozen types, checked on arrival."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, TypeAdapter

from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_schemas.tuning.least_work import LeastWork
from tunefarm_schemas.tuning.measurement import Result
from tunefarm_schemas.tuning.workload import Abi, TensorArgument
from tunefarm_workers.conversation.argument import Argument, Distribution


class HostOrder(Frozen):
    """What a task host holds ready for the candidates of one exploration."""

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


class HostReady(Frozen):
    """A task host can be forked from now on."""

    kind: Literal["ready"] = "ready"
    arguments: tuple[Argument, ...]
    input_set_s: float
    """How long it took to make one set of inputs."""
    least_work: LeastWork = LeastWork()


class HostRefused(Frozen):
    """A task host could not make sense of the module."""

    kind: Literal["refused"] = "refused"
    field: str
    problem: str
    fix: str


FromHost = Annotated[HostReady | HostRefused, Field(discriminator="kind")]


class CandidateOrder(Frozen):
    """One attempt. ``thorough`` asks for the whole protocol whatever the incumbent, and for all sets of inputs."""

    trace: str | None = Field(repr=False)
    incumbent_s: float | None
    thorough: bool
    cold_cache: bool


class Built(Frozen):
    """Compiled to machine code; the first call follows."""

    kind: Literal["built"] = "built"
    build_s: float


class Warm(Frozen):
    """Called once, its first output sent; waiting for a quiet device."""

    kind: Literal["warm"] = "warm"


class Ran(Frozen):
    """What the clock said. With ``checks_follow`` the child goes on to call the kernel on the other sets of inputs."""

    kind: Literal["ran"] = "ran"
    result: Annotated[Result, Field(discriminator="kind")]
    run_s: float
    checks_follow: bool
    hopeless: bool = False
    """Let go before a quiet device was asked for."""
    peak_memory_bytes: int = 0
    apart: bool = True
    """Whether each thread had a physical core of its own."""


class Checked(Frozen):
    """All sets of inputs were run."""

    kind: Literal["checked"] = "checked"


class Broken(Frozen):
    """A failure that the child itself could still report."""

    kind: Literal["broken"] = "broken"
    reason: FailureReason
    message: str


FromCandidate = Annotated[Built | Warm | Ran | Checked | Broken, Field(discriminator="kind")]


class Go(Frozen):
    """The device is quiet: take the time, once no two threads share a physical core or ``tries`` to that end failed."""

    incumbent_s: float | None
    tries: int


class ReferenceOrder(Frozen):
    """Run the untuned function on the first ``sets`` sets of inputs."""

    sets: int
    widen: bool


class ReferenceStep(Frozen):
    """The outputs on one set of inputs were sent, in the workload's own types or with floats widened to 64 bits."""

    kind: Literal["step"] = "step"
    set_number: int
    double: bool


class ReferenceBroken(Frozen):
    """The untuned function did not build or run. ``double`` tells which form of it."""

    kind: Literal["broken"] = "broken"
    double: bool
    message: str


class ReferenceFigures(Frozen):
    """What the untuned function as written took of the processor to build, and about what a call of it takes."""

    kind: Literal["figures"] = "figures"
    build_s: PositiveFloat
    latency_s: PositiveFloat


class ReferenceTimed(Frozen):
    """About how long the untuned function takes.

    It is timed once beside other work, as the child's last word, or estimated, of a long function, as its first.
    """

    kind: Literal["timed"] = "timed"
    latency_s: PositiveFloat


FromReference = Annotated[
    ReferenceStep | ReferenceBroken | ReferenceFigures | ReferenceTimed, Field(discriminator="kind")
]


class ComparisonPlan(Frozen):
    """Schedules to be timed in turn in one process.

    Side by side they are compiled sooner; one after the other, it shows which of them took the process down.
    Where calls of the untuned function take long, it is computed only where its output has the elements that
    ``samples`` names for each set of inputs.
    """

    traces: tuple[str | None, ...] = Field(repr=False)
    cold_cache: bool
    side_by_side: bool
    samples: tuple[tuple[int, ...], ...] = ()


class Compiled(Frozen):
    """One schedule of a comparison is built, and its outputs on all sets of inputs were sent.

    With ``leading``, of the output only the samples of the plan were computed, each with all elements that are the same
    in so many leading dimensions; its times are estimates.
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
    """Seconds per call of each schedule that one round was asked for, in the order of their places."""

    kind: Literal["round"] = "round"
    samples_s: tuple[tuple[PositiveFloat, ...], ...]


FromComparison = Annotated[Compiled | Round, Field(discriminator="kind")]


class LinkOrder(Frozen):
    """Compile one schedule to a shared library inside the folder that is the child's own."""

    host: HostOrder
    trace: str | None = Field(repr=False)
    folder: str


class Linked(Frozen):
    """The library, whose bytes come in the next message."""

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
    def of(cls, host: HostOrder, arguments: tuple[Argument, ...]) -> Self:
        """The same inputs as that host holds."""
        return cls(
            arguments=arguments,
            seed=host.seed,
            distribution=host.distribution,
            input_specs=host.input_specs,
            input_examples=host.input_examples,
        )


from_host: TypeAdapter[HostReady | HostRefused] = TypeAdapter(FromHost)
from_candidate: TypeAdapter[Built | Warm | Ran | Checked | Broken] = TypeAdapter(FromCandidate)
from_reference: TypeAdapter[ReferenceStep | ReferenceBroken | ReferenceFigures | ReferenceTimed] = TypeAdapter(
    FromReference
)
from_comparison: TypeAdapter[Compiled | Round] = TypeAdapter(FromComparison)
from_linker: TypeAdapter[Linked | Broken] = TypeAdapter(FromLinker)


class DeviceChild(Frozen):
    """First word of the child that times the reference kernels."""

    code_generator: str


class KernelRequest(Frozen):
    """Time the reference kernels, thoroughly or in a few milliseconds."""

    depth: Literal["calibrate", "check"]
