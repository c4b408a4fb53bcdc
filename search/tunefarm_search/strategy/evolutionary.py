"""Evolution over the sampling decisions, guided by the cost model.

Thousands of points are bred and judged by their decisions alone; only those to be measured are made into schedules.

1. Breed. Random points, mutants and children of the best that were measured, and all neighbours of the very best; a few
   generations of selection by worth and mutation. A small space is enumerated instead.
2. Judge. Worth = score of the model + curiosity x disagreement of its ensemble - penalty for a long build.
3. Plan a few proposals at a time, each from one of three sources, drawn by chance:
   random      from the better half of random points; of a sketch that was hardly measured, while there is one
   neighbour   one step from one of the best (coordinate descent, as in Droplet search, TACO 2023), leaps first
   evolved     the most worthy of 1, in an order that spreads the first of them
4. Learn from each result, and plan again once the trees were grown again.

The share of random points is higher at first, since what is bred from the first good points stays near them, and
whenever the search has gained nothing for a while.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class EvolutionConfig:
    """The constants of the search.

    Attributes:
        small_space: a space of no more points is enumerated.
        random_points: drawn at random for a population, and to choose random proposals from.
        elites: how many of the best that were measured are parents.
        mutants_of_elite: how many mutants each elite has, and as many children.
        generations: rounds of selection and mutation.
        survivors: how many points a round keeps.
        mutants_of_survivor: how many mutants each of them has.
        restart: chance of a decision of a survivor's mutant to be drawn at random instead of moved by a step.
        restart_of_elite: the same for a mutant of an elite.
        restart_of_child: the same for a child of two elites.
        finalists: how many of the most worthy are put into an order that spreads them.
        curiosity: how much the ensemble's disagreement counts beside its mean.
        build_penalty: what a doubled build time costs, in deviations of the score.
        planned: proposals drawn from one evolution, if the model does not learn in between.
        random_share: of the proposals.
        random_share_on_plateau: after ``plateau`` results without a gain.
        random_share_at_first: among the first ``looked_around`` results.
        neighbour_share: of the proposals, once anything has a time.
        neighbours_of: how many of the best have their neighbours tried.
        acquainted: a sketch that was measured less often is strange: the model knows nothing of it.
        max_sought: a strange sketch that was sought so often and gives nothing to measure is left alone.
    """

    small_space: int = 2_048
    random_points: int = 256
    elites: int = 32
    mutants_of_elite: int = 4
    generations: int = 2
    survivors: int = 96
    mutants_of_survivor: int = 3
    restart: float = 0.1
    restart_of_elite: float = 0.2
    restart_of_child: float = 0.05
    finalists: int = 64
    curiosity: float = 0.25
    build_penalty: float = 0.1
    planned: int = 8
    random_share: float = 0.1
    random_share_on_plateau: float = 0.35
    plateau: int = 20
    random_share_at_first: float = 0.4
    looked_around: int = 40
    neighbour_share: float = 0.2
    neighbours_of: int = 3
    acquainted: int = 4
    max_sought: int = 12


DEFAULTS = EvolutionConfig()


class EvolutionaryStrategy:
    """Evolves decisions. With a ``pool`` it judges the points of that alone, for replaying measured data."""

    def __init__(
        self, space: SearchSpace, selector: CandidateSelector, model: CostModel, extractor: FeatureExtractor, seed: int,
        pool: Population | None = None, config: EvolutionConfig = DEFAULTS,
    ) -> None:  # fmt: skip
        self._space = space
        self._selector = selector
        self._model = model
        self._extractor = extractor
        self._random = np.random.default_rng(seed)
        self._breeder = Breeder(space.sketches, self._random)
        self._pool = pool
        self._config = config
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
        near = self._config.neighbour_share if self._valid and self._pool is None else 0.0
        shares = [epsilon, near, 1 - epsilon - near]
        order = [(random, neighbour, evolved)[n] for n in self._random.choice(3, size=self._config.planned, p=shares)]
        sources = {
            random: self._random_points(),
            neighbour: self._neighbour_points(),
            evolved: self._evolved_points(),
        }
        return Plan(sources, order, instead=evolved)

    def _random_share(self) -> float:
        config = self._config
        if self._measured_of.sum() < config.looked_around:
            return config.random_share_at_first
        return config.random_share_on_plateau if self._since_gain >= config.plateau else config.random_share

    @property
    def _strange(self) -> npt.NDArray[np.bool_]:
        """Which sketches the model knows nothing of; shape [sketches]."""
        return (self._measured_of < self._config.acquainted) & (self._sought < self._config.max_sought)

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
        worth = said.score + self._config.curiosity * said.spread - self._config.build_penalty * np.nan_to_num(slower)
        return worth, said.score, said.build_s

    def _random_points(self) -> Iterator[RankedPoint]:
        drawn = self._pool
        if drawn is None:
            drawn = self._strangest(self._breeder.sample(self._config.random_points))
        drawn = self._unseen(drawn)
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
        for _, point in self._valid[: self._config.neighbours_of]:
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
        finalists = self._config.finalists
        population = self._unseen(self._evolved())
        if len(population) < finalists and self._pool is None:
            # The best are all known, as in the last corner of a small space: look everywhere.
            everywhere = self._breeder.sample(4 * self._config.random_points)
            population = self._breeder.join([population, self._unseen(everywhere)])
        if not len(population):
            return
        worth, score, build_s = self._judge(population)
        order = np.argsort(-worth, kind="stable")
        head = order[:finalists]
        features, _ = features_of(population.take(head), self._space.sketches, self._extractor)
        order = np.concatenate([head[diverse_order(features, worth[head])], order[finalists:]])
        origin = CandidateOrigin.EVOLVED if self._valid else CandidateOrigin.RANDOM
        yield from self._ranked_points(population, order, score, build_s, origin)

    def _evolved(self) -> Population:
        if self._pool is not None:
            return self._pool
        config, breeder = self._config, self._breeder
        if self._space.points <= config.small_space:
            return self._shuffled(breeder.every_point())
        parts = [breeder.sample(config.random_points)]
        if self._valid:
            elites = breeder.of_points([point for _, point in self._valid[: config.elites]])
            parts += [breeder.mutate(elites, config.restart_of_elite) for _ in range(config.mutants_of_elite)]
            children = breeder.cross(elites, config.mutants_of_elite * config.elites)
            parts += [breeder.mutate(children, config.restart_of_child)]
            parts += [breeder.neighbours(self._valid[0][1])]
        population = breeder.join(parts)
        for _ in range(config.generations):
            worth, _, _ = self._judge(population)
            kept = population.take(np.argsort(-worth)[: config.survivors])
            mutants = (breeder.mutate(kept, config.restart) for _ in range(config.mutants_of_survivor))
            population = breeder.join([kept, *mutants]).unique()
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
