"""What the child that plans a model is asked, and what it answers."""

from typing import Final

from pydantic import Field

from tunefarm.model.messages import PreparedTask, PrepareOrder
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_schemas.tuning.target import Target

PLAN: Final = "tunefarm.bundle.plan_child:main"


class StaticPlanOrder(Frozen):
    """A model to plan. ``entry`` is one of its functions, None for the only one or ``main``; ``name`` an identifier.

    ``has_vectors`` says that the framework computed results; otherwise the child computes them if ``max_operations``
    is not exceeded. ``is_linked`` asks for what a device must have.
    """

    model: PrepareOrder = Field(repr=False)
    entry: str | None
    name: str
    has_vectors: bool
    max_operations: float
    is_linked: bool


class PlannedParts(Frozen):
    """A planned model. Its weights, as the plan places them, are in a file, and ``vectors`` in another one.

    ``rest_json`` is a module of the functions of no task that the plan calls; None if there are none.
    """

    target: Target
    notes: tuple[str, ...]
    code_generator: str
    tvm_version: str
    entry: ModelEntry
    tasks: tuple[PreparedTask, ...]
    cpu_features: tuple[str, ...]
    """What the target's code needs beyond its architecture's base, if the bundle is linked here."""
    reason_it_cannot_run_here: str | None
    """Why this host's processor cannot run code for the target; None if it can."""
    rest_json: str | None = Field(repr=False)
    source: str = Field(repr=False)
    header: str = Field(repr=False)
    weights_bytes: int
    arena_bytes: int
    vectors: int
    """How many sets of inputs and outputs were written."""
