"""Uniform sampling, the baseline for other strategies.

1. Draw many points; of a small space, all of them in random order.
2. Replace the locations that TVM is known to move, one block of points at a time, and propose what is new.
3. If these are not enough, take the points as drawn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tunefarm_schemas.tuning.measurement import CandidateOrigin, Failed
from tunefarm_search.model.population import GeneticOperators, Population
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.strategy.candidate_selector import CandidateSelector, RankedPoint
from tunefarm_search.strategy.protocol import Outcome, Proposal, StrategyReport


@dataclass(frozen=True)
class RandomConfig:
    """The constants of the sampling.

    Attributes:
        max_draws: points of one draw, and the most points of a space that is enumerated. Most points of some spaces
            repeat a schedule or do not apply, so that a draw has many more than are proposed.
        points_per_block: points whose locations are replaced at once. Locations become known while points are applied,
            so that a later block is replaced with more knowledge.
    """

    max_draws: int = 2_000
    points_per_block: int = 32


DEFAULTS = RandomConfig()


class RandomStrategy:
    """Draws random points until enough of them apply. With a ``pool`` it draws only from the pool."""

    def __init__(
        self,
        space: SearchSpace,
        selector: CandidateSelector,
        seed: int,
        pool: Population | None = None,
        config: RandomConfig = DEFAULTS,
    ) -> None:
        self._space = space
        self._selector = selector
        self._random = np.random.default_rng(seed)
        self._operators = GeneticOperators(space.sketches, self._random)
        self._pool = pool
        self._config = config

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
        drawn, size = self._draw(), self._config.points_per_block
        for start in range(0, len(drawn), size):
            some = drawn.take(np.arange(start, min(start + size, len(drawn))))
            yield from self._all_of(self._selector.moved.settle(some))
        yield from self._all_of(drawn)

    def _all_of(self, population: Population) -> Iterator[RankedPoint]:
        for number in range(len(population)):
            yield RankedPoint(population.point(number, self._space.sketches), CandidateOrigin.RANDOM)

    def _draw(self) -> Population:
        if self._pool is not None:
            return self._pool.take(self._random.permutation(len(self._pool)))
        if self._space.points <= self._config.max_draws:
            every = self._operators.every_point()
            return every.take(self._random.permutation(len(every)))
        return self._operators.sample(self._config.max_draws)
