"""The result of one evolution, used for several proposals."""

from collections.abc import Iterator, Mapping, Sequence

from tunefarm_schemas.tuning.measurement import CandidateOrigin
from tunefarm_search.strategy.candidate_selector import CandidateSelector, RankedPoint
from tunefarm_search.strategy.protocol import Proposal


class Plan:
    """Ranked points from several sources, and the source of each proposal.

    A farm that requests one candidate at a time thus does not cause an evolution for each. Sources are iterators that
    compute their points on first use.
    """

    def __init__(
        self,
        sources: Mapping[CandidateOrigin, Iterator[RankedPoint]],
        order: Sequence[CandidateOrigin],
        fallback: CandidateOrigin,
    ) -> None:
        self._sources = sources
        self._order = list(order)
        self._fallback = fallback

    @property
    def is_used_up(self) -> bool:
        """Whether all planned proposals were made."""
        return not self._order

    def next_proposal(self, selector: CandidateSelector) -> Proposal | None:
        """The next proposal, from ``fallback`` if its source is exhausted; None if both are."""
        for origin in (self._order.pop(0), self._fallback):
            picked = selector.pick(self._sources[origin], 1)
            if picked:
                return picked[0]
        return None
