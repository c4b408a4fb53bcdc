"""The request to the intake child, and its answer."""

from typing import Literal

from pydantic import ConfigDict, Field

from tunefarm.intake.module_source import ModuleSource
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.input_spec import InputExample, InputKind, InputSpec
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_schemas.tuning.workload import Abi, Workload


class ScheduleSource(Frozen):
    """A Python function that takes a schedule and transforms it."""

    path: str
    symbol: str


class SeedSource(Frozen):
    """A schedule to be measured first: a trace as JSON text, or a schedule function without random choices."""

    name: str
    text: str = ""
    function: ScheduleSource | None = None


class InputRequest(Frozen):
    """The contents of an argument; ``npy`` is the unchecked content of an example's NumPy file."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    argument: str
    kind: InputKind
    low: float | None = None
    high: float | None = None
    npy: bytes | None = Field(default=None, repr=False)


class IntakeRequest(Frozen):
    """The parts of a job that require TVM to read."""

    module: ModuleSource
    function: str | None
    """The function to tune; None if there is only one, or all are tuned."""
    all_functions: bool
    target: str
    """JSON or a name; empty for this host's processor."""
    abi: Abi
    space: ScheduleSource | None
    seeds: tuple[SeedSource, ...]
    host_cores: int
    elsewhere: bool = False
    """Whether another machine measures, so that this one need not be able to run the target."""
    inputs: tuple[InputRequest, ...] = ()
    takes_frontends: bool = False
    """Whether the answer to a model that a frontend must convert is that it is one, and not a refusal."""
    functions_file: str | None = None
    """A Python file that registers the external functions of a model, which is run on this machine."""
    callees: tuple[str, ...] | None = ()
    """External functions that the module may call. None leaves the decision to the service."""
    intrinsics_file: str | None = None
    """A Python file that registers the tensor intrinsics that schedule functions and traces name."""


class IntakeAnswer(Frozen):
    """A module that was read. ``notes`` list the defaults that were filled in."""

    kind: Literal["understood"] = "understood"
    workloads: tuple[Workload, ...]
    target: Target
    space: Space
    seed_traces: tuple[Trace, ...]
    notes: tuple[str, ...]
    input_specs: tuple[InputSpec, ...] = ()
    input_examples: tuple[InputExample, ...] = ()
    untuned_functions: tuple[str, ...] = ()
    """Functions of the module that are not TIR."""
    calls: tuple[float, ...] = ()
    """How often a run of the model calls each of the workloads; empty if the module is not a model."""
    is_of_frontend: bool = False
    """Whether the module is a model that a frontend must convert first. Then there are no workloads yet."""
