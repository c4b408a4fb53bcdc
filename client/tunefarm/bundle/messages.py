"""What the child that plans a model is asked, and what it answers."""

from typing import Final

from pydantic import Field

from tunefarm.model.messages import PreparedTask, PrepareOrder
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload

PLAN: Final = "tunefarm.bundle.plan_child:main"
PLAN_FUNCTIONS: Final = "tunefarm.bundle.function_plan_child:main"
WRITE_VECTORS: Final = "tunefarm.bundle.function_plan_child:write_vectors"


def kernel_prefix(name: str) -> str:
    """What the kernels of a bundle called ``name`` begin with, so that a program can link several bundles."""
    return f"{name}_"


class StaticPlanOrder(Frozen):
    """A model to plan. ``entry`` is one of its functions, None for the only one or ``main``; ``name`` an identifier.

    ``has_vectors`` says that the framework computed results; otherwise the child computes them if ``max_operations``
    is not exceeded. ``is_linked`` asks for what a device must have; ``is_cuda`` is set for a bundle for GPUs.
    ``is_foreign`` refuses TIR functions that do more than compute, before anything of the model runs.
    """

    model: PrepareOrder = Field(repr=False)
    entry: str | None
    name: str
    has_vectors: bool
    max_operations: float
    is_linked: bool
    is_cuda: bool
    is_foreign: bool = False


class NamedFunction(Frozen):
    """A function under the name that it has in a bundle, an identifier of C."""

    name: str
    workload: Workload


class FunctionsPlanOrder(Frozen):
    """Functions to plan, or to compute vectors of, each as an entry. Other fields are those of ``StaticPlanOrder``."""

    functions: tuple[NamedFunction, ...]
    target: Target | str
    """As a record has it, or as typed."""
    host_cores: int
    name: str
    max_operations: float
    is_linked: bool
    is_cuda: bool


class VectorCounts(Frozen):
    """How many sets of inputs and outputs were written for each entry."""

    counts: tuple[int, ...]


class PlannedEntry(Frozen):
    """An entry and its constant in the sources. ``vectors`` is how many sets of inputs and outputs were written."""

    constant: str
    entry: ModelEntry
    arena_bytes: int = 0
    vectors: int = 0


class PlannedParts(Frozen):
    """Planned entries, the first of which is timed. Two files hold the weights, as they are placed, and vectors.

    ``rest_json`` is a module of the functions of no task that the plan calls; None if there are none.
    """

    target: Target
    notes: tuple[str, ...]
    code_generator: str
    tvm_version: str
    entries: tuple[PlannedEntry, ...]
    tasks: tuple[PreparedTask, ...]
    cpu_features: tuple[str, ...]
    """What the target's code needs beyond its architecture's base, if the bundle is linked here."""
    reason_it_cannot_run_here: str | None
    """Why this host's processor cannot run code for the target; None if it can."""
    rest_json: str | None = Field(repr=False)
    source: str = Field(repr=False)
    header: str = Field(repr=False)
    weights_bytes: int
