"""What a farm says to the children that compile for a device and to the one that holds it."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_schemas.tuning.measurement import Result
from tunefarm_schemas.tuning.workload import Abi, TensorArgument
from tunefarm_workers.conversation.messages import Broken, HostOrder, Round


class Toolchain(Frozen):
    """How libraries for a device are made on this host.

    ``linker`` is a command that makes a shared library from objects; empty takes the first C compiler that is found.
    ``host_target`` is the processor beside a graphics processor, as JSON; empty where the device is a processor.
    ``programs`` are folders with programs beyond the system's that compiling runs, ``readable`` folders that it reads.
    ``compiler`` is the name and version of what compiles besides TVM and LLVM; empty for nothing.
    """

    linker: tuple[str, ...] = ()
    linker_flags: tuple[str, ...] = ("-lm",)
    host_target: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    programs: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    compiler: str = ""


class BuildOrder(Frozen):
    """Compile one schedule for ``target`` inside the folder that is the child's own."""

    module_json: str = Field(repr=False)
    target: str
    abi: Abi
    callees: tuple[str, ...] = ()
    trace: str | None = Field(repr=False)
    folder: str
    toolchain: Toolchain


class ReferenceBuildOrder(Frozen):
    """Compile the reference kernels for ``target``. ``threads`` is how many of them a processor's kernels take."""

    target: str
    threads: int
    folder: str
    toolchain: Toolchain


class BoundsOrder(Frozen):
    """Examine the memory accesses of one schedule for ``target``."""

    target: str
    abi: Abi
    trace: str | None = Field(repr=False)


class Examined(Frozen):
    """What a schedule's memory accesses are: inside of its tensors where ``failure`` is None."""

    kind: Literal["examined"] = "examined"
    failure: Broken | None


class LibraryShape(Frozen):
    """What a compiled library holds: the functions to call, and the arguments that ``pack_entry`` prepares."""

    entry: str
    pack_entry: str | None = None
    packed: tuple[tuple[int, TensorArgument], ...] = ()


class LibraryBuilt(Frozen):
    """A library is ready; its bytes are the next message."""

    kind: Literal["built"] = "built"
    shape: LibraryShape
    build_s: float


class ReferencesBuilt(Frozen):
    """The reference kernels are compiled; the library's bytes are the next message."""

    kind: Literal["references"] = "references"
    code_generator: str
    """All that compiles, with versions, as it enters a record's key."""


class HostFacts(Frozen):
    """What a child finds out about its own host. ``host_target`` is its processor with all that it can do, as JSON."""

    code_generator: str
    host_target: str


FromBuilder = Annotated[LibraryBuilt | ReferencesBuilt | Broken, Field(discriminator="kind")]


class SessionOrder(Frozen):
    """First word to the child that holds a device. ``host`` is the task whose inputs it brings there, if any.

    ``num_cores`` is the number of threads that kernels take; 0 for a device that has no such notion.
    """

    host: HostOrder | None
    num_cores: int
    flush_bytes: int
    """How much memory is written between two calls of a kernel whose time with cold caches is wanted."""
    connection: str
    """What the child needs to reach its device, as JSON of a type that it knows."""


class SessionReady(Frozen):
    """The device is reached, and the inputs are there."""

    kind: Literal["ready"] = "ready"


class DeviceGone(Frozen):
    """The device cannot be reached, or was lost. The child is of no further use."""

    kind: Literal["gone"] = "gone"
    message: str


class RunRequest(Frozen):
    """Run, time and check one library, which is the descriptor. Its outputs are sent before the answer."""

    kind: Literal["run"] = "run"
    shape: LibraryShape
    incumbent_s: float | None
    thorough: bool
    cold_cache: bool


class EnterRequest(Frozen):
    """Load the library in the descriptor, to be timed beside others. Its outputs are sent before the answer."""

    kind: Literal["enter"] = "enter"
    shape: LibraryShape
    cold_cache: bool


class RoundRequest(Frozen):
    """Time all that entered in turn."""

    kind: Literal["round"] = "round"
    turn: int


class ReferenceRequest(Frozen):
    """Time the reference kernels of the library in the descriptor."""

    kind: Literal["reference"] = "reference"
    depth: Literal["calibrate", "check"]


ToSession = Annotated[RunRequest | EnterRequest | RoundRequest | ReferenceRequest, Field(discriminator="kind")]


class SessionRan(Frozen):
    """What the clock said. The outputs on ``inputs_checked`` sets of inputs were sent."""

    kind: Literal["ran"] = "ran"
    result: Annotated[Result, Field(discriminator="kind")]
    run_s: float
    inputs_checked: int


class Entered(Frozen):
    """A library is loaded, and its outputs on all sets of inputs were sent; or it broke."""

    kind: Literal["entered"] = "entered"
    failure: Broken | None


class ReferenceTimes(Frozen):
    """The reference kernels' present times."""

    kind: Literal["times"] = "times"
    times: ReferenceKernelTimes


FromSession = Annotated[
    SessionReady | DeviceGone | SessionRan | Entered | Round | ReferenceTimes | Broken, Field(discriminator="kind")
]

from_builder: TypeAdapter[LibraryBuilt | ReferencesBuilt | Broken] = TypeAdapter(FromBuilder)
to_session: TypeAdapter[RunRequest | EnterRequest | RoundRequest | ReferenceRequest] = TypeAdapter(ToSession)
from_session: TypeAdapter[SessionReady | DeviceGone | SessionRan | Entered | Round | ReferenceTimes | Broken] = (
    TypeAdapter(FromSession)
)
