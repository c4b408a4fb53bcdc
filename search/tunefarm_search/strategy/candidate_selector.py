"""Turns ranked points into proposals, without points that do not apply or repeat a schedule.

For each point, in the order of the strategy:

1. Skip it if it was tried before.
2. Apply it. Count it as a miss if it does not apply, or if its schedule was proposed before.
3. Otherwise propose it. End with enough proposals, or after many misses in a row.
"""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tunefarm_schemas.tuning.measurement import CandidateOrigin
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.space.scheduling import Point, Rejected, Scheduled, Scheduler
from tunefarm_search.strategy.candidate_filter import CandidateFilter
from tunefarm_search.strategy.moved_decisions import MovedDecisions
from tunefarm_search.strategy.protocol import Proposal


@dataclass(frozen=True)
class SelectorConfig:
    """The constants of the selection.

    Attributes:
        max_consecutive_misses: selection ends after this many misses in a row: the space is likely exhausted, and each
            miss costs the time to apply a point.
    """

    max_consecutive_misses: int = 128


DEFAULTS = SelectorConfig()


@dataclass(frozen=True)
class RankedPoint:
    """A point that a strategy suggests for measurement."""

    point: Point
    origin: CandidateOrigin
    score: float | None = None
    build_s: float | None = None


class CandidateSelector:
    """Applies points and keeps those with a new schedule. Counts the others."""

    def __init__(
        self,
        scheduler: Scheduler,
        known: CandidateFilter,
        moved: MovedDecisions,
        config: SelectorConfig = DEFAULTS,
    ) -> None:
        self._scheduler = scheduler
        self._config = config
        self.known = known
        self.moved = moved
        self.apply_s = 0.0
        self._refusals: Counter[str] = Counter()
        self.repeated = 0

    @property
    def rejected(self) -> int:
        """Number of points without a valid schedule."""
        return self._refusals.total()

    @property
    def refusal(self) -> str:
        """The most frequent reason for rejection; empty if nothing was rejected."""
        return next((text for text, _ in self._refusals.most_common(1)), "")

    def pick(self, ranked_points: Iterable[RankedPoint], count: int) -> list[Proposal]:
        """Proposals for the first ``count`` points with a schedule that was not tried before."""
        picked: list[Proposal] = []
        misses = 0
        for ranked in ranked_points if count > 0 else ():
            if not self.known.is_new_point(ranked.point):
                continue
            scheduled = self._apply(ranked.point)
            misses = misses + 1 if scheduled is None else 0
            if scheduled is not None:
                picked.append(Proposal(scheduled, ranked.origin, ranked.score, ranked.build_s))
            if len(picked) >= count or misses >= self._config.max_consecutive_misses:
                break
        return picked

    def replay(self, trace: Trace, origin: CandidateOrigin) -> Proposal | None:
        """A proposal from a whole trace, or None if it does not apply or was tried before."""
        scheduled = self._admitted(self._scheduler.replay(trace))
        return None if scheduled is None else Proposal(scheduled, origin)

    def _apply(self, point: Point) -> Scheduled | None:
        started = time.perf_counter()
        self.known.note_point(point)
        applied = self._scheduler.apply(point)
        if isinstance(applied, Scheduled) and applied.point is not None:
            self.moved.note(point, applied.point)
        scheduled = self._admitted(applied)
        self.apply_s += time.perf_counter() - started
        return scheduled

    def _admitted(self, applied: Scheduled | Rejected) -> Scheduled | None:
        if isinstance(applied, Rejected):
            self._refusals[applied.text] += 1
            return None
        if applied.point is not None:
            self.known.note_point(applied.point)
        if self.known.admit(applied):
            return applied
        self.repeated += 1
        return None
