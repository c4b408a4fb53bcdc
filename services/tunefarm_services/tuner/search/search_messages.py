"""What the supervisor and the search child say to each other: JSON lines of frozen types, never pickles."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.job import Effort, StopReason, Strategy
from tunefarm_schemas.tuning.least_work import LeastWork
from tunefarm_schemas.tuning.measurement import Candidate, Measurement
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_schemas.tuning.workload import Abi
from tunefarm_services.tuner.summary import ModelAccuracy


class KnownTrialMessage(Frozen):
    """A trial of an earlier run that the search starts from."""

    candidate: Candidate
    measurement: Measurement


class SearchTaskMessage(Frozen):
    """One exploration the search child works on, with all that the store knows of it."""

    exploration_id: str
    name: str
    weight: float
    module_json: str = Field(repr=False)
    target: Target
    abi: Abi
    space: Space
    known: tuple[KnownTrialMessage, ...]
    seed_traces: tuple[Trace, ...]
    claimed_traces: tuple[Trace, ...] = ()
    """Schedules of this very workload that were only claimed, or measured elsewhere."""
    near_traces: tuple[Trace, ...] = ()
    model_json: str | None = Field(default=None, repr=False)


class SearchOrder(Frozen):
    """Everything a search child is told at its start. ``effort`` is what is left to spend."""

    tasks: tuple[SearchTaskMessage, ...] = Field(min_length=1)
    strategy: Strategy
    effort: Effort
    seed: int
    queue_depth: int


class Proposed(Frozen):
    """Candidates to be measured."""

    kind: Literal["proposed"] = "proposed"
    candidates: tuple[Candidate, ...]


class Understood(Frozen):
    """What every schedule of each exploration's function has to do. The first that the child says."""

    kind: Literal["understood"] = "understood"
    least_work: dict[str, LeastWork]


class SearchReport(Frozen):
    """How the search is doing. Seconds are totals; the accuracy is of what the model learned last, before it did."""

    kind: Literal["report"] = "report"
    evolve_s: float
    train_s: float
    apply_s: float
    rank_accuracy: ModelAccuracy | None
    exploration_id: str
    rounds: int


class ModelSnapshot(Frozen):
    """The cost model of one exploration, as XGBoost's JSON."""

    kind: Literal["model"] = "model"
    exploration_id: str
    model_json: str = Field(repr=False)
    trials: int


class SearchEnded(Frozen):
    """The search has nothing more to propose; per exploration, why, and why most of its schedules were refused."""

    kind: Literal["ended"] = "ended"
    stop_reasons: dict[str, StopReason]
    refusals: dict[str, str] = Field(default_factory=dict)


FromSearch = Annotated[Understood | Proposed | SearchReport | ModelSnapshot | SearchEnded, Field(discriminator="kind")]


class MeasuredMessage(Frozen):
    """Results, committed already."""

    kind: Literal["measured"] = "measured"
    measurements: tuple[Measurement, ...]


class StopSearching(Frozen):
    """End now; what is in flight will not be reported."""

    kind: Literal["stop"] = "stop"


ToSearch = Annotated[MeasuredMessage | StopSearching, Field(discriminator="kind")]

from_search: TypeAdapter[FromSearch] = TypeAdapter(FromSearch)
to_search: TypeAdapter[ToSearch] = TypeAdapter(ToSearch)
