"""Proposes given traces in order."""

from collections.abc import Sequence

from tunefarm_schemas.tuning.measurement import CandidateOrigin
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.strategy.candidate_selector import CandidateSelector
from tunefarm_search.strategy.protocol import Outcome, Proposal, StrategyReport


class ReplayStrategy:
    """Proposes only the given traces, in order. Skips traces that do not apply."""

    def __init__(self, selector: CandidateSelector, traces: Sequence[Trace]) -> None:
        self._selector = selector
        self._left = list(traces)

    def propose(self, count: int) -> list[Proposal]:
        """The next traces; none after the last."""
        proposals: list[Proposal] = []
        while self._left and len(proposals) < count:
            proposal = self._selector.replay(self._left.pop(0), CandidateOrigin.SEED)
            if proposal is not None:
                proposals.append(proposal)
        return proposals

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Does nothing: results do not affect the order."""

    def report(self) -> StrategyReport:
        """Counts of dropped traces."""
        return StrategyReport(
            rejected=self._selector.rejected, repeated=self._selector.repeated, refusal=self._selector.refusal
        )

    def model(self) -> str | None:
        """Always None: this strategy has no model."""
        return None
