"""What the loop tells about itself while it runs."""

from dataclasses import dataclass

from tunefarm_schemas.tuning.job import StopReason
from tunefarm_search.strategy.protocol import StrategyReport


@dataclass(frozen=True)
class LoopProgress:
    """A moment of the search.

    Attributes:
        exploration_id: the task that results came in for.
        trials: results so far over all tasks.
        in_flight: candidates on their way, over all tasks.
        best_latency_s: best of that task; infinite before the first valid one.
        trials_per_s: over the whole run.
        propose_s: seconds spent in proposing, learning apart.
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
    """How the search of one task ended. ``model`` is the cost model's text, for other explorations."""

    exploration_id: str
    trials: int
    best_latency_s: float
    stop_reason: StopReason
    strategy: StrategyReport
    model: str | None
