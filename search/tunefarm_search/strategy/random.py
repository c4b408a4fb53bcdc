"""Uniform sampling, the baseline for other strategies."""

from collections.abc import Iterator, Sequence

import numpy as np

from tunefarm_schemas.tuning.measurement import CandidateOrigin, Failed
from tunefarm_search.model.population import GeneticOperators, Population
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.strategy.candidate_selector import CandidateSelector, RankedPoint
from tunefarm_search.strategy.protocol import Outcome, Proposal, StrategyReport

MAX_DRAWS = 2_000
BLOCK = 32


class RandomStrategy:
    """Draws random points until enough of them apply. With a ``pool`` it draws only from the pool."""

    def __init__(
        self, space: SearchSpace, selector: CandidateSelector, seed: int, pool: Population | None = None
    ) -> None:
        self._space = space
        self._selector = selector
        self._random = np.random.default_rng(seed)
        self._operators = GeneticOperators(space.sketches, self._random)
        self._pool = pool

    def propose(self, count: int) -> list[Proposal]:
        """Up to ``count`` random schedules; fewer if thousands of draws contain too few new ones."""
        return self._selector.pick(self._ranked_points(), count)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Allow retries of failures that the candidate may not have caused. There is nothing to learn."""
        for outcome in outcomes:
            if isinstance(outcome.result, Failed):
                self._selector.known.note_failure(outcome.proposal.scheduled, outcome.result.failure)

    def report(self) -> StrategyReport:
        """Counts of dropped points."""
        return StrategyReport(
            apply_s=self._selector.apply_s,
            rejected=self._selector.rejected,
            repeated=self._selector.repeated,
            refusal=self._selector.refusal,
        )

    def model(self) -> str | None:
        """Always None: this strategy has no model."""
        return None

    def _ranked_points(self) -> Iterator[RankedPoint]:
        """Points in random order. Those whose locations TVM is known to move come last, as drawn."""
        drawn = self._draw()
        for start in range(0, len(drawn), BLOCK):
            some = drawn.take(np.arange(start, min(start + BLOCK, len(drawn))))
            yield from self._all_of(self._selector.moved.settle(some))
        yield from self._all_of(drawn)

    def _all_of(self, population: Population) -> Iterator[RankedPoint]:
        for number in range(len(population)):
            yield RankedPoint(population.point(number, self._space.sketches), CandidateOrigin.RANDOM)

    def _draw(self) -> Population:
        if self._pool is not None:
            return self._pool.take(self._random.permutation(len(self._pool)))
        if self._space.points <= MAX_DRAWS:
            every = self._operators.every_point()
            return every.take(self._random.permutation(len(every)))
        return self._operators.sample(MAX_DRAWS)
