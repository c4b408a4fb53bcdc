"""What every strategy offers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tunefarm_schemas.tuning.measurement import CandidateOrigin, Result
from tunefarm_search.model.rank_accuracy import RankAccuracy
from tunefarm_search.space.scheduling import Scheduled


@dataclass(frozen=True)
class Proposal:
    """A schedule worth measuring. ``score`` is the model's opinion (higher is better), None if it has none."""

    scheduled: Scheduled
    origin: CandidateOrigin
    score: float | None = None
    build_s: float | None = None


@dataclass(frozen=True)
class Outcome:
    """A proposal with what came of it. ``build_s`` is the build time in seconds."""

    proposal: Proposal
    result: Result
    build_s: float


@dataclass(frozen=True)
class StrategyReport:
    """Where a strategy's time went, in seconds, and how good its model was on the last results it had not seen.

    ``refusal`` says why most of the ``rejected`` points give no schedule; empty when none was rejected.
    """

    evolve_s: float = 0.0
    apply_s: float = 0.0
    train_s: float = 0.0
    rejected: int = 0
    repeated: int = 0
    accuracy: RankAccuracy | None = None
    refusal: str = ""


class Strategy(Protocol):
    """Chooses candidates for one exploration. Deterministic, given its seed and the order of calls."""

    def propose(self, count: int) -> list[Proposal]:
        """At most ``count`` new schedules; none when the space has no more to offer."""

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Learn from results, in the order in which they came."""

    def report(self) -> StrategyReport:
        """Figures for the progress display."""

    def model(self) -> str | None:
        """What was learned, for other explorations to start from; None if nothing was."""
