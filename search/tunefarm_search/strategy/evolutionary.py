"""Evolution over the sampling decisions, guided by the cost model.

Thousands of points are bred and judged by their decisions alone; only those to be measured are made into schedules.
Beside the best of them go neighbours of the incumbent (coordinate descent, as in Droplet search, TACO 2023) and a few
random points.
"""

import time
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tunefarm_schemas.tuning.measurement import CandidateOrigin, Failed, Timing
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.model.boosting import FloatArray
from tunefarm_search.model.cost_model import CostModel, sample_of
from tunefarm_search.model.population import Breeder, Population, features_of
from tunefarm_search.model.rank_accuracy import RankAccuracy
from tunefarm_search.space.scheduling import Point
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.strategy.batch_choice import diverse_order
from tunefarm_search.strategy.candidate_selector import CandidateSelector, RankedPoint
from tunefarm_search.strategy.plan import Plan
from tunefarm_search.strategy.protocol import Outcome, Proposal, StrategyReport
from tunefarm_search.strategy.stopping import GAIN_THAT_COUNTS

RANDOM_POINTS = 256
ELITES = 32
GENERATIONS = 2
SURVIVORS = 96
SMALL_SPACE = 2_048
FINALISTS = 64
CURIOSITY = 0.25
"""How much the ensemble's disagreement counts beside its mean."""
BUILD_PENALTY = 0.1
"""What a doubled build time costs, in deviations of the score."""
PLATEAU = 20
"""After as many results without a gain, more is drawn at random."""
RANDOM_SHARE = 0.1
RANDOM_SHARE_ON_PLATEAU = 0.35
RANDOM_SHARE_AT_FIRST = 0.4
"""Among the first ``LOOKED_AROUND`` results: what is bred from the first good points alone stays near them."""
LOOKED_AROUND = 40
ACQUAINTED = 4
"""A sketch that was measured less often is strange: the model knows nothing of it."""
MAX_SOUGHT = 12
"""A sketch that was sought so often and gives nothing to measure is left alone."""
NEIGHBOUR_SHARE = 0.2
PLANNED = 8
"""Proposals drawn from one evolution, if the model does not learn in between."""


class EvolutionaryStrategy:
    """Evolves decisions. With a ``pool`` it judges the points of that alone, for replaying measured data."""

    def __init__(
        self, space: SearchSpace, selector: CandidateSelector, model: CostModel, extractor: FeatureExtractor, seed: int,
        pool: Population | None = None,
    ) -> None:  # fmt: skip
        self._space = space
        self._selector = selector
        self._model = model
        self._extractor = extractor
        self._random = np.random.default_rng(seed)
        self._breeder = Breeder(space.sketches, self._random)
        self._pool = pool
        self._valid: list[tuple[float, Point]] = []
        self._since_gain = 0
        self._best_at_last_gain_s = float("inf")
        self._measured_of = np.zeros(len(space.sketches), np.int64)
        self._sought = np.zeros(len(space.sketches), np.int64)
        self._evolve_s = 0.0
        self._train_s = 0.0
        self._accuracy: RankAccuracy | None = None
        self._plan: Plan | None = None

    def propose(self, count: int) -> list[Proposal]:
        """The most promising new schedules, some neighbours of the best so far, and a few at random."""
        started, applied_s = time.perf_counter(), self._selector.apply_s
        proposals: list[Proposal] = []
        is_dry = False
        while len(proposals) < count and not is_dry:
            is_fresh = self._plan is None
            plan = self._plan or self._new_plan()
            proposal = plan.next_proposal(self._selector)
            proposals += [] if proposal is None else [proposal]
            is_dry = proposal is None and is_fresh
            self._plan = None if proposal is None or plan.is_used_up else plan
        self._evolve_s += time.perf_counter() - started - (self._selector.apply_s - applied_s)
        return proposals

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Take results in, and train where enough new ones have come."""
        started = time.perf_counter()
        for outcome in outcomes:
            if isinstance(outcome.result, Failed):
                self._selector.known.note_failure(outcome.proposal.scheduled, outcome.result.failure)
        placed = [o for o in outcomes if o.proposal.scheduled.point is not None and not _says_nothing(o)]
        if placed:
            self._learn(placed)
        self._train_s += time.perf_counter() - started

    def report(self) -> StrategyReport:
        """Seconds spent, what did not fit, and how well the last results were foreseen."""
        selector = self._selector
        return StrategyReport(
            self._evolve_s,
            selector.apply_s,
            self._train_s,
            selector.rejected,
            selector.repeated,
            self._accuracy,
            selector.refusal,
        )

    def model(self) -> str | None:
        """The trees in JSON."""
        return self._model.save()

    def _new_plan(self) -> Plan:
        random, neighbour, evolved = CandidateOrigin.RANDOM, CandidateOrigin.NEIGHBOUR, CandidateOrigin.EVOLVED
        epsilon = self._random_share()
        near = NEIGHBOUR_SHARE if self._valid and self._pool is None else 0.0
        shares = [epsilon, near, 1 - epsilon - near]
        order = [(random, neighbour, evolved)[n] for n in self._random.choice(3, size=PLANNED, p=shares)]
        sources = {
            random: self._random_points(),
            neighbour: self._neighbour_points(),
            evolved: self._evolved_points(),
        }
        return Plan(sources, order, instead=evolved)

    def _random_share(self) -> float:
        if self._measured_of.sum() < LOOKED_AROUND:
            return RANDOM_SHARE_AT_FIRST
        return RANDOM_SHARE_ON_PLATEAU if self._since_gain >= PLATEAU else RANDOM_SHARE

    @property
    def _strange(self) -> npt.NDArray[np.bool_]:
        """Which sketches the model knows nothing of; shape [sketches]."""
        return (self._measured_of < ACQUAINTED) & (self._sought < MAX_SOUGHT)

    def _learn(self, outcomes: Sequence[Outcome]) -> None:
        points = [o.proposal.scheduled.point for o in outcomes if o.proposal.scheduled.point is not None]
        population = self._breeder.of_points(points)
        np.add.at(self._measured_of, population.sketch, 1)
        features, prior = features_of(population, self._space.sketches, self._extractor)
        self._model.add(features, prior, [sample_of(o.result, o.build_s) for o in outcomes])
        self._valid += [
            (o.result.latency_s, point)
            for o, point in zip(outcomes, points, strict=True)
            if isinstance(o.result, Timing)
        ]
        self._valid.sort(key=lambda entry: entry[0])
        self._since_gain += len(outcomes)
        if self._valid and self._valid[0][0] <= GAIN_THAT_COUNTS * self._best_at_last_gain_s:
            self._since_gain, self._best_at_last_gain_s = 0, self._valid[0][0]
        if self._model.is_due:
            accuracy = self._model.learn()
            if any(o.proposal.score is not None for o in outcomes):  # what an earlier run measured was not foreseen
                self._accuracy = accuracy or self._accuracy
            self._plan = None

    def _judge(self, population: Population) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What each point is worth measuring, its score, and its expected build time in seconds."""
        features, prior = features_of(population, self._space.sketches, self._extractor)
        said = self._model.predict(features, prior)
        slower = np.log2(np.maximum(said.build_s / self._model.typical_build_s, 1.0))
        worth = said.score + CURIOSITY * said.spread - BUILD_PENALTY * np.nan_to_num(slower)
        return worth, said.score, said.build_s

    def _random_points(self) -> Iterator[RankedPoint]:
        drawn = self._unseen(self._strangest(self._breeder.sample(RANDOM_POINTS)) if self._pool is None else self._pool)
        if not len(drawn):
            return
        worth, score, build_s = self._judge(drawn)
        # Half of all random points are hopeless by any measure: draw among the better half.
        better = np.argsort(-worth)[: max(1, len(worth) // 2)]
        yield from self._ranked_points(drawn, self._random.permutation(better), score, build_s, CandidateOrigin.RANDOM)

    def _strangest(self, population: Population) -> Population:
        """Points of the strange sketch that was measured least, if there is one; else all."""
        strange = np.flatnonzero(self._strange)
        if not len(strange):
            return population
        sketch = strange[np.argmin(self._measured_of[strange] + self._sought[strange])]
        self._sought[sketch] += 1
        return population.take(np.flatnonzero(population.sketch == sketch))

    def _neighbour_points(self) -> Iterator[RankedPoint]:
        for _, point in self._valid[:3]:
            steps, elsewhere = self._breeder.neighbours(point), self._breeder.transplants(point)
            near = self._unseen(self._breeder.join([steps, elsewhere]))
            if len(near):
                worth, score, build_s = self._judge(near)
                order = np.lexsort((-worth, ~self._is_a_leap(near, point)))
                yield from self._ranked_points(near, order, score, build_s, CandidateOrigin.NEIGHBOUR)

    def _is_a_leap(self, near: Population, point: Point) -> npt.NDArray[np.bool_]:
        """Which neighbours have another sketch than ``point``, another choice, or a block now in none of the loops.

        There are few of them, and the worth of a sketch, or of how far to unroll, hangs on all tiles. What the model
        learned elsewhere says little about them here, so they are tried first.
        """
        leaps = np.asarray(near.sketch != point.sketch)
        same = np.flatnonzero(~leaps)
        for number, column in enumerate(self._space.sketches[point.sketch].columns):
            rows = near.rows[same, number]
            is_other = rows != point.rows[number]
            if column.kind == "choice":
                leaps[same] |= is_other
            elif column.kind == "location":
                leaps[same] |= is_other & (column.table[rows, 0] < 0)
        return leaps

    def _evolved_points(self) -> Iterator[RankedPoint]:
        population = self._unseen(self._evolved())
        if len(population) < FINALISTS and self._pool is None:
            # The best are all known, as in the last corner of a small space: look everywhere.
            population = self._breeder.join([population, self._unseen(self._breeder.sample(4 * RANDOM_POINTS))])
        if not len(population):
            return
        worth, score, build_s = self._judge(population)
        order = np.argsort(-worth, kind="stable")
        head = order[:FINALISTS]
        features, _ = features_of(population.take(head), self._space.sketches, self._extractor)
        order = np.concatenate([head[diverse_order(features, worth[head])], order[FINALISTS:]])
        origin = CandidateOrigin.EVOLVED if self._valid else CandidateOrigin.RANDOM
        yield from self._ranked_points(population, order, score, build_s, origin)

    def _evolved(self) -> Population:
        if self._pool is not None:
            return self._pool
        if self._space.points <= SMALL_SPACE:
            return self._shuffled(self._breeder.every_point())
        parts = [self._breeder.sample(RANDOM_POINTS)]
        if self._valid:
            elites = self._breeder.of_points([point for _, point in self._valid[:ELITES]])
            parts += [self._breeder.mutate(elites) for _ in range(4)]
            parts += [self._breeder.mutate(self._breeder.cross(elites, 4 * ELITES), 0.05)]
            parts += [self._breeder.neighbours(self._valid[0][1])]
        population = self._breeder.join(parts)
        for _ in range(GENERATIONS):
            worth, _, _ = self._judge(population)
            kept = population.take(np.argsort(-worth)[:SURVIVORS])
            population = self._breeder.join([kept, *(self._breeder.mutate(kept, 0.1) for _ in range(3))]).unique()
        return population

    def _unseen(self, population: Population) -> Population:
        """New points. Where only those are left whose locations seem to be moved, that may be an error: take them."""
        settled = self._new(self._selector.moved.settle(population).unique())
        return settled if len(settled) else self._new(population)

    def _new(self, population: Population) -> Population:
        sketches, known = self._space.sketches, self._selector.known
        new = [n for n in range(len(population)) if known.is_new_point(population.point(n, sketches))]
        return population.take(np.array(new, np.int64))

    def _shuffled(self, population: Population) -> Population:
        return population.take(self._random.permutation(len(population)))

    def _ranked_points(
        self, population: Population, order: np.ndarray, score: FloatArray, build_s: FloatArray, origin: CandidateOrigin
    ) -> Iterator[RankedPoint]:
        for number in order:
            expected = float(build_s[number])
            yield RankedPoint(
                population.point(int(number), self._space.sketches),
                origin,
                float(score[number]),
                None if np.isnan(expected) else expected,
            )


def _says_nothing(outcome: Outcome) -> bool:
    """Whether a failure tells nothing about the candidate."""
    return isinstance(outcome.result, Failed) and outcome.result.failure.may_be_tried_again
