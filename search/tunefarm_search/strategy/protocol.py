"""The interface of strategies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tunefarm_schemas.tuning.measurement import CandidateOrigin, Result
from tunefarm_search.model.rank_accuracy import RankAccuracy
from tunefarm_search.space.scheduling import Scheduled


@dataclass(frozen=True)
class Proposal:
    """A schedule worth measuring. ``score`` is the model's prediction (higher is better), or None."""

    scheduled: Scheduled
    origin: CandidateOrigin
    score: float | None = None
    build_s: float | None = None


@dataclass(frozen=True)
class Outcome:
    """A proposal with its result. ``build_s`` is the build time in seconds."""

    proposal: Proposal
    result: Result
    build_s: float


@dataclass(frozen=True)
class StrategyReport:
    """Time that a strategy spent, in seconds, and the accuracy of its model on the last results it had not seen.

    ``refusal`` is the most frequent reason for the ``rejected`` points; empty if none was rejected.
    """

    evolve_s: float = 0.0
    apply_s: float = 0.0
    train_s: float = 0.0
    rejected: int = 0
    repeated: int = 0
    accuracy: RankAccuracy | None = None
    refusal: str = ""


class Strategy(Protocol):
    """Chooses candidates for one exploration. Deterministic for a given seed and order of calls."""

    def propose(self, count: int) -> list[Proposal]:
        """At most ``count`` new schedules; none if the space is exhausted."""

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Learn from results, in the order of arrival."""

    def report(self) -> StrategyReport:
        """Figures for the progress display."""

    def model(self) -> str | None:
        """The learned model as text, for other explorations to start from; None if there is none."""
