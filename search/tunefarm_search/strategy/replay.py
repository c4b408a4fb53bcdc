"""Given traces, one after the other."""

from collections.abc import Sequence

from tunefarm_schemas.tuning.measurement import CandidateOrigin
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.strategy.candidate_selector import CandidateSelector
from tunefarm_search.strategy.protocol import Outcome, Proposal, StrategyReport


class ReplayStrategy:
    """Proposes the given traces in their order and nothing else. Traces that do not fit are left out."""

    def __init__(self, selector: CandidateSelector, traces: Sequence[Trace]) -> None:
        self._selector = selector
        self._left = list(traces)

    def propose(self, count: int) -> list[Proposal]:
        """The next traces; none when all were proposed."""
        proposals: list[Proposal] = []
        while self._left and len(proposals) < count:
            proposal = self._selector.replay(self._left.pop(0), CandidateOrigin.SEED)
            if proposal is not None:
                proposals.append(proposal)
        return proposals

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Results change nothing."""

    def report(self) -> StrategyReport:
        """Counts of what did not fit."""
        return StrategyReport(
            rejected=self._selector.rejected, repeated=self._selector.repeated, refusal=self._selector.refusal
        )

    def model(self) -> str | None:
        """There is none."""
        return None
