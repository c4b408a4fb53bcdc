"""From ranked points to proposals: what fits and was not tried."""

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

MAX_FRUITLESS = 128
"""After as many points in a row that do not fit or are repeats, there is likely nothing left."""


@dataclass(frozen=True)
class RankedPoint:
    """A point that a strategy would like to have measured."""

    point: Point
    origin: CandidateOrigin
    score: float | None = None
    build_s: float | None = None


class CandidateSelector:
    """Applies points and keeps those that give a new schedule. Counts what it drops."""

    def __init__(self, scheduler: Scheduler, known: CandidateFilter, moved: MovedDecisions) -> None:
        self._scheduler = scheduler
        self.known = known
        self.moved = moved
        self.apply_s = 0.0
        self._refusals: Counter[str] = Counter()
        self.repeated = 0

    @property
    def rejected(self) -> int:
        """How many points gave no schedule worth measuring."""
        return self._refusals.total()

    @property
    def refusal(self) -> str:
        """Why most of them gave none; empty when there are none."""
        return next((text for text, _ in self._refusals.most_common(1)), "")

    def pick(self, ranked_points: Iterable[RankedPoint], count: int) -> list[Proposal]:
        """The first ``count`` of them that give a schedule that was not tried."""
        picked: list[Proposal] = []
        fruitless = 0
        for ranked in ranked_points if count > 0 else ():
            if not self.known.is_new_point(ranked.point):
                continue
            scheduled = self._apply(ranked.point)
            fruitless = fruitless + 1 if scheduled is None else 0
            if scheduled is not None:
                picked.append(Proposal(scheduled, ranked.origin, ranked.score, ranked.build_s))
            if len(picked) >= count or fruitless >= MAX_FRUITLESS:
                break
        return picked

    def replay(self, trace: Trace, origin: CandidateOrigin) -> Proposal | None:
        """A proposal from a whole trace, or None if it does not fit or was tried."""
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
