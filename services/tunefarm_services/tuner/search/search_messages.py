"""Messages between the supervisor and the search child: JSON of frozen types, never pickles."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.job import Effort, StopReason, Strategy
from tunefarm_schemas.tuning.least_work import LeastWork
from tunefarm_schemas.tuning.measurement import Candidate, Measurement
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_schemas.tuning.workload import Abi
from tunefarm_schemas.views.jobs.summary import ModelAccuracy


class KnownTrialMessage(Frozen):
    """A trial of an earlier run that the search starts from."""

    candidate: Candidate
    measurement: Measurement


class SearchTaskMessage(Frozen):
    """One exploration of the search, with its data from the store."""

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
    """Schedules of the same workload that were only claimed, or measured on another device class."""
    near_traces: tuple[Trace, ...] = ()
    model_json: str | None = Field(default=None, repr=False)
    of_model: bool = False
    is_answered: bool = False
    """Whether the store has its result, so that it counts in the model's time and is not searched."""


class SearchOrder(Frozen):
    """The input of a search child. ``effort`` is the remaining effort."""

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
    """The minimum work of each exploration's function. The first message of the child."""

    kind: Literal["understood"] = "understood"
    least_work: dict[str, LeastWork]


class SearchReport(Frozen):
    """Progress of the search. Seconds are totals; the accuracy is on the latest trials, before training on them."""

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
    """The end of the search; by exploration, why it ended, and why most of its schedules were rejected."""

    kind: Literal["ended"] = "ended"
    stop_reasons: dict[str, StopReason]
    refusals: dict[str, str] = Field(default_factory=dict)


FromSearch = Annotated[Understood | Proposed | SearchReport | ModelSnapshot | SearchEnded, Field(discriminator="kind")]


class MeasuredMessage(Frozen):
    """Results that are committed to the store."""

    kind: Literal["measured"] = "measured"
    measurements: tuple[Measurement, ...]


class StopSearching(Frozen):
    """End now; the results of candidates in flight will not be sent."""

    kind: Literal["stop"] = "stop"


ToSearch = Annotated[MeasuredMessage | StopSearching, Field(discriminator="kind")]

from_search: TypeAdapter[FromSearch] = TypeAdapter(FromSearch)
to_search: TypeAdapter[ToSearch] = TypeAdapter(ToSearch)
