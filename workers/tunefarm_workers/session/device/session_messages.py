"""Messages between a farm and its children: those that compile for a device, and the one that holds it."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_schemas.tuning.measurement import ElapsedSeconds, Result
from tunefarm_schemas.tuning.workload import Abi, TensorArgument
from tunefarm_workers.conversation.messages import Broken, Round, TaskOrder


class Toolchain(Frozen):
    """How libraries for a device are compiled on this host.

    Attributes:
        linker: command that links objects to a shared library; empty for the first C compiler found.
        host_target: processor beside a graphics processor, as JSON; empty if the device is a processor.
        programs: folders with executables, besides the system's, that the compiler runs.
        readable: folders that the compiler reads.
        compiler: name and version of a compiler besides TVM and LLVM; empty for none.
    """

    linker: tuple[str, ...] = ()
    linker_flags: tuple[str, ...] = ("-lm",)
    host_target: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    programs: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    compiler: str = ""


class BuildOrder(Frozen):
    """Compile one schedule for ``target`` in the child's own folder."""

    module_json: str = Field(repr=False)
    target: str
    abi: Abi
    callees: tuple[str, ...] = ()
    trace: str | None = Field(repr=False)
    folder: str
    toolchain: Toolchain


class ReferenceBuildOrder(Frozen):
    """Compile the reference kernels for ``target``, with ``threads`` threads on a processor."""

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
    """The result of ``BoundsOrder``. Without ``failure``, all accesses are within the schedule's tensors."""

    kind: Literal["examined"] = "examined"
    failure: Broken | None


class LibraryShape(Frozen):
    """The functions of a compiled library, and the arguments that ``pack_entry`` prepares."""

    entry: str
    pack_entry: str | None = None
    packed: tuple[tuple[int, TensorArgument], ...] = ()


class LibraryBuilt(Frozen):
    """A library is compiled; its bytes are the next message."""

    kind: Literal["built"] = "built"
    shape: LibraryShape
    build_s: ElapsedSeconds


class ReferencesBuilt(Frozen):
    """The reference kernels are compiled; the library's bytes are the next message."""

    kind: Literal["references"] = "references"
    code_generator: str
    """The compilers with their versions, as in a record's key."""


class HostFacts(Frozen):
    """Facts about a host. ``host_target`` is its processor with all features, as JSON."""

    code_generator: str
    host_target: str


FromBuilder = Annotated[LibraryBuilt | ReferencesBuilt | Broken, Field(discriminator="kind")]


class SessionOrder(Frozen):
    """First message to the child that holds a device.

    Attributes:
        task: the task whose inputs it copies to the device, if any.
        num_cores: threads of kernels; 0 for a device without that notion.
        flush_bytes: bytes written between calls that are timed with cold caches.
        connection: the child's parameters to connect to the device, as JSON.
    """

    task: TaskOrder | None
    num_cores: int
    flush_bytes: int
    connection: str


class SessionReady(Frozen):
    """The device is connected, and the inputs are copied."""

    kind: Literal["ready"] = "ready"


class DeviceGone(Frozen):
    """The device cannot be reached or was lost. The child cannot continue."""

    kind: Literal["gone"] = "gone"
    message: str


class RunRequest(Frozen):
    """Run, time and check the library in the descriptor. Its outputs are sent before the answer."""

    kind: Literal["run"] = "run"
    shape: LibraryShape
    incumbent_s: float | None
    thorough: bool
    cold_cache: bool


class EnterRequest(Frozen):
    """Load and check the library in the descriptor for rounds. Its outputs are sent before the answer."""

    kind: Literal["enter"] = "enter"
    shape: LibraryShape
    cold_cache: bool


class RoundRequest(Frozen):
    """Time all libraries that entered, one after the other."""

    kind: Literal["round"] = "round"
    turn: int


class ReferenceRequest(Frozen):
    """Time the reference kernels of the library in the descriptor."""

    kind: Literal["reference"] = "reference"
    depth: Literal["calibrate", "check"]


ToSession = Annotated[RunRequest | EnterRequest | RoundRequest | ReferenceRequest, Field(discriminator="kind")]


class SessionRan(Frozen):
    """The timing. The outputs on ``inputs_checked`` sets of inputs were sent before."""

    kind: Literal["ran"] = "ran"
    result: Annotated[Result, Field(discriminator="kind")]
    run_s: ElapsedSeconds
    inputs_checked: int


class Entered(Frozen):
    """A library is loaded and its outputs on all sets of inputs were sent, or it failed."""

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
