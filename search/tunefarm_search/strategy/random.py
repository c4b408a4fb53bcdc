"""Uniform sampling: the yardstick for the other strategies."""

from collections.abc import Iterator, Sequence

import numpy as np

from tunefarm_schemas.tuning.measurement import CandidateOrigin, Failed
from tunefarm_search.model.population import Breeder, Population
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.strategy.candidate_selector import CandidateSelector, RankedPoint
from tunefarm_search.strategy.protocol import Outcome, Proposal, StrategyReport

FRUITLESS_DRAWS = 2_000
DRAWN_AT_ONCE = 32


class RandomStrategy:
    """Draws points until they fit. With a ``pool`` it draws from that alone."""

    def __init__(
        self, space: SearchSpace, selector: CandidateSelector, seed: int, pool: Population | None = None
    ) -> None:
        self._space = space
        self._selector = selector
        self._random = np.random.default_rng(seed)
        self._breeder = Breeder(space.sketches, self._random)
        self._pool = pool

    def propose(self, count: int) -> list[Proposal]:
        """Up to ``count`` random schedules; fewer when thousands of draws brought nothing new."""
        return self._selector.pick(self._ranked_points(), count)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing to learn; failures by other causes are opened again."""
        for outcome in outcomes:
            if isinstance(outcome.result, Failed):
                self._selector.known.note_failure(outcome.proposal.scheduled, outcome.result.failure)

    def report(self) -> StrategyReport:
        """Counts of what did not fit."""
        return StrategyReport(
            apply_s=self._selector.apply_s,
            rejected=self._selector.rejected,
            repeated=self._selector.repeated,
            refusal=self._selector.refusal,
        )

    def model(self) -> str | None:
        """There is none."""
        return None

    def _ranked_points(self) -> Iterator[RankedPoint]:
        """Points as they are drawn; those whose locations TVM moves to what was tried already come last."""
        drawn = self._draw()
        for start in range(0, len(drawn), DRAWN_AT_ONCE):
            some = drawn.take(np.arange(start, min(start + DRAWN_AT_ONCE, len(drawn))))
            yield from self._all_of(self._selector.moved.settle(some))
        yield from self._all_of(drawn)

    def _all_of(self, population: Population) -> Iterator[RankedPoint]:
        for number in range(len(population)):
            yield RankedPoint(population.point(number, self._space.sketches), CandidateOrigin.RANDOM)

    def _draw(self) -> Population:
        if self._pool is not None:
            return self._pool.take(self._random.permutation(len(self._pool)))
        if self._space.points <= FRUITLESS_DRAWS:
            every = self._breeder.every_point()
            return every.take(self._random.permutation(len(every)))
        return self._breeder.sample(FRUITLESS_DRAWS)
