"""What the service and the child that trains pooled models say to each other."""

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Abi
from tunefarm_services.tuner.search.search_messages import KnownTrial


class TrainingExploration(Frozen):
    """One exploration of TVM's own space, with trials to learn from."""

    module_json: str = Field(repr=False)
    target: Target
    abi: Abi
    known: tuple[KnownTrial, ...]


class TrainingOrder(Frozen):
    """What to learn from together."""

    explorations: tuple[TrainingExploration, ...] = Field(min_length=1)
    seed: int = 0


class Trained(Frozen):
    """The model as XGBoost's JSON with the names of its features; None where too little was known."""

    model_json: str | None = Field(repr=False)
