"""What was evolved once, drawn from until it is used up."""

from collections.abc import Iterator, Mapping, Sequence

from tunefarm_schemas.tuning.measurement import CandidateOrigin
from tunefarm_search.strategy.candidate_selector import CandidateSelector, RankedPoint
from tunefarm_search.strategy.protocol import Proposal


class Plan:
    """Ranked points from several sources, and from which of them each next proposal comes.

    A farm that asks for one candidate at a time so costs one evolution for many of them. The sources are iterators
    that do their work when they are first drawn from.
    """

    def __init__(
        self,
        sources: Mapping[CandidateOrigin, Iterator[RankedPoint]],
        order: Sequence[CandidateOrigin],
        instead: CandidateOrigin,
    ) -> None:
        self._sources = sources
        self._order = list(order)
        self._instead = instead

    @property
    def is_used_up(self) -> bool:
        """Whether as many proposals were drawn as were planned."""
        return not self._order

    def next_proposal(self, selector: CandidateSelector) -> Proposal | None:
        """The next one; where its source has nothing more, one from the source that stands in. None if that is dry."""
        for origin in (self._order.pop(0), self._instead):
            picked = selector.pick(self._sources[origin], 1)
            if picked:
                return picked[0]
        return None
