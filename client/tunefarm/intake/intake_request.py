"""What the intake child is asked, and what it answers."""

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
    """What one argument holds; ``npy`` is the file of an example as NumPy wrote it, not yet looked at."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    argument: str
    kind: InputKind
    low: float | None = None
    high: float | None = None
    npy: bytes | None = Field(default=None, repr=False)


class IntakeRequest(Frozen):
    """Everything of a job that only a process with TVM can understand."""

    module: ModuleSource
    function: str | None
    """Which of several functions; None when there is one, or all are meant."""
    all_functions: bool
    target: str
    """JSON text, or empty for this host's processor."""
    abi: Abi
    space: ScheduleSource | None
    seeds: tuple[SeedSource, ...]
    host_cores: int
    elsewhere: bool = False
    """Whether other machines measure it, so that this one need not be able to run it."""
    inputs: tuple[InputRequest, ...] = ()
    callees: tuple[str, ...] | None = ()
    """Functions outside of its module that it may call. None: that is for the service to say that it is sent to."""


class IntakeAnswer(Frozen):
    """A module understood. ``weights`` has one entry for each workload; ``notes`` say what was filled in."""

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
