"""Progress reports of the search loop."""

from dataclasses import dataclass

from tunefarm_schemas.tuning.job import StopReason
from tunefarm_search.strategy.protocol import StrategyReport


@dataclass(frozen=True)
class LoopProgress:
    """The state of the search at one moment.

    Attributes:
        exploration_id: the task that the latest results belong to.
        trials: results so far over all tasks.
        in_flight: candidates without a result, over all tasks.
        best_latency_s: best latency of that task; infinite before the first timing.
        trials_per_s: over the whole run.
        propose_s: seconds spent on proposals, without training.
    """

    elapsed_s: float
    exploration_id: str
    trials: int
    in_flight: int
    best_latency_s: float
    trials_per_s: float
    propose_s: float
    strategy: StrategyReport


@dataclass(frozen=True)
class TaskProgress:
    """The outcome of the search of one task. ``model`` is the saved cost model, for other explorations."""

    exploration_id: str
    trials: int
    best_latency_s: float
    stop_reason: StopReason
    strategy: StrategyReport
    model: str | None
