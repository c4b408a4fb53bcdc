"""What the children that compile a model are asked, and what they answer."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.model import EntryUpdates, FunctionKind, ModelEntry
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload

PREPARE: Final = "tunefarm.model.prepare_child:main"
BUILD: Final = "tunefarm.model.build_child:main"
LINK: Final = "tunefarm.model.build_child:link"
FLOAT32_TOLERANCE: Final = 5e-3
"""How much outputs of whole models in float32 may differ, of their largest element. What they are compared with has
errors of its own: torch differs from float64 by up to 1.6e-3 in an EfficientNet-B0 with random weights. A wrong kernel
differs by much more, and each kernel has a tolerance of its own when it is tuned."""
COMPARE: Final = "tunefarm.model.compare_child:main"
Caches: TypeAlias = Literal["warm", "cold"]


class PrepareOrder(Frozen):
    """A model to prepare. ``weights`` names those of each entry in the file that is passed with it."""

    module_json: str = Field(repr=False)
    weights: Mapping[str, tuple[str, ...]]
    target: str
    host_cores: int
    folder: str
    """A folder that the child may write to."""
    has_plans: bool = False
    """Whether the child then cuts the model by plans."""


class PreparedTask(Frozen):
    """As ``ModelTask`` of the search."""

    workload: Workload
    functions: tuple[str, ...]
    calls: Mapping[str, int]


class UnitParts(Frozen):
    """As ``Unit`` of the search: what a library runs as a whole or not at all. ``problem`` says why it cannot."""

    functions: tuple[str, ...]
    operators: int
    problem: str


class PreparedParts(Frozen):
    """A prepared model without its bytecode, which is the next message, and its weights, which are in a file.

    ``rest_json`` is a module of the functions that belong to no task; None if there are none. ``is_quantized`` says
    whether functions round to 8-bit integers.
    """

    target: Target
    notes: tuple[str, ...]
    code_generator: str
    tvm_version: str
    entries: tuple[ModelEntry, ...]
    entry_weights: Mapping[str, tuple[str, ...]]
    updated_inputs: tuple[EntryUpdates, ...]
    tasks: tuple[PreparedTask, ...]
    units: tuple[UnitParts, ...] = ()
    """What libraries can run, if the child cuts the model by plans."""
    rest_json: str | None = Field(repr=False)
    is_quantized: bool


class FunctionOrder(Frozen):
    """Functions to compile to one object file, or to write in C, or for a GPU as ``CudaSource``.

    ``module_json`` has one function ``main``, which is compiled under each of ``names``; without names it is compiled
    as it is. ``trace`` is that of a record; without one, ``is_scheduled`` says whether to choose an untried schedule.
    ``unit`` requests C instead, as a part of a program under that name.
    """

    module_json: str = Field(repr=False)
    names: tuple[str, ...] = ()
    target: Target
    trace: str | None = Field(default=None, repr=False)
    record_id: str | None = None
    is_scheduled: bool = True
    unit: str | None = None
    folder: str


class FunctionBuilt(Frozen):
    """The object file is the next message.

    Attributes:
        kind: of its schedule.
        way: what an untried schedule was made by.
        problem: says why a better schedule was not used; empty if it was.
        cpu_features: that it needs and other code for its target does not, as Linux names them.
    """

    kind: FunctionKind
    way: str = ""
    problem: str = ""
    cpu_features: tuple[str, ...] = ()


class ObjectsOrder(Frozen):
    """Object files to link to one library, which is the next message after ``FunctionBuilt``."""

    objects: tuple[str, ...]
    folder: str


class CompareOrder(Frozen):
    """A compiled model to run. ``functions`` are the external ones that it may call.

    Its library is passed in sealed memory, and after it what it is compared with: another library with the same
    functions, or a file with inputs of the framework and its outputs. ``entries`` says whose they are.
    ``is_quantized`` says that the model rounds to 8-bit integers. ``timed`` says with which caches runs are timed;
    if with any, the child sends ``AwaitsTurn`` before it answers.
    """

    folder: str
    against: Literal["library", "outputs"] | None = None
    entries: tuple[str, ...] = ()
    is_quantized: bool = False
    timed: tuple[Caches, ...] = ("warm", "cold")
    reference_folder: str | None = None
    """The folder whose program and weights the other library has, if not those of ``folder``."""
    functions: tuple[str, ...] = ()
    functions_file: str | None = None


def input_name(number: int, position: int) -> str:
    """The name of an input in that file; ``number`` is the position in ``entries``."""
    return f"input.{number}.{position}"


def output_name(number: int, position: int) -> str:
    """The name of an output in that file, tuples flattened."""
    return f"output.{number}.{position}"


def exact_name(number: int, position: int) -> str:
    """The name of an output that was computed in float32, which is in that file for models in halves alone."""
    return f"exact.{number}.{position}"


class AwaitsTurn(Frozen):
    """A child is about to time something, and waits for any message before it begins."""

    awaits_turn: Literal[True]


class ModelCompared(Frozen):
    """``worst_error`` is relative to what is allowed; if it is ``by_function``, of each function on the same arguments.

    ``latency_s`` and ``cold_latency_s`` are of one run with warm and with cold caches; None if it was not timed so.
    """

    worst_error: float | None
    by_function: bool = False
    latency_s: float | None
    cold_latency_s: float | None
