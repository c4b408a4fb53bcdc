"""Evolution over the sampling decisions, guided by the cost model.

Generates thousands of points and ranks them by their decisions alone. Builds schedules only for points to be measured.

1. Generate: random points, mutants and children of the best measured points, and all neighbours of the best one. Then a
   few generations of selection by worth and mutation. A small space is enumerated instead.
2. Rank: worth = model score + spread_weight x disagreement of the ensemble - penalty for a long build.
3. Plan a few proposals at a time, each from one of three randomly chosen sources:
   random      from the better half of random points; from an undersampled sketch while there is one
   neighbour   one step from one of the best (coordinate descent, as in Droplet search, TACO 2023), large steps first
   evolved     the points of 1 with the highest worth, in an order that diversifies the first of them
4. Learn from each result. Make a new plan after each training of the model.

The share of random points is higher at the start, because descendants of the first good points stay near them, and on a
plateau.
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
from tunefarm_search.model.population import GeneticOperators, Population, features_of
from tunefarm_search.model.rank_accuracy import RankAccuracy
from tunefarm_search.space.scheduling import Point
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.strategy.batch_choice import diverse_order
from tunefarm_search.strategy.candidate_selector import CandidateSelector, RankedPoint
from tunefarm_search.strategy.plan import Plan
from tunefarm_search.strategy.protocol import Outcome, Proposal, StrategyReport
from tunefarm_search.strategy.stopping import is_gain


@dataclass(frozen=True)
class EvolutionConfig:
    """The constants of the search.

    Attributes:
        small_space: spaces of at most this many points are enumerated.
        random_points: number of random points in a population, and of those that random proposals are chosen from.
        elites: number of best measured points that are parents.
        mutants_per_elite: mutants of each elite; there are as many children.
        generations: rounds of selection and mutation.
        survivors: points that each round keeps.
        mutants_per_survivor: mutants of each survivor.
        restart: probability that a mutated decision of a survivor is resampled instead of moved by one step.
        elite_restart: the same for a mutant of an elite.
        child_restart: the same for a child of two elites.
        finalists: number of points with the highest worth that are ordered for diversity.
        spread_weight: weight of the ensemble's disagreement relative to its mean.
        build_penalty: cost of a doubled build time, in standard deviations of the score.
        proposals_per_plan: proposals taken from one evolution if the model is not trained in between.
        random_share: share of random proposals.
        plateau_random_share: the same after ``plateau_trials`` results without a gain.
        initial_random_share: the same during the first ``initial_trials`` results.
        neighbour_share: share of neighbours, once a candidate has a timing.
        neighbour_parents: number of best points whose neighbours are tried.
        min_samples_per_sketch: a sketch with fewer measurements is undersampled: the model cannot rank its points.
        max_attempts_per_sketch: an undersampled sketch is not preferred again after this many attempts.
    """

    small_space: int = 2_048
    random_points: int = 256
    elites: int = 32
    mutants_per_elite: int = 4
    generations: int = 2
    survivors: int = 96
    mutants_per_survivor: int = 3
    restart: float = 0.1
    elite_restart: float = 0.2
    child_restart: float = 0.05
    finalists: int = 64
    spread_weight: float = 0.25
    build_penalty: float = 0.1
    proposals_per_plan: int = 8
    random_share: float = 0.1
    plateau_random_share: float = 0.35
    plateau_trials: int = 20
    initial_random_share: float = 0.4
    initial_trials: int = 40
    neighbour_share: float = 0.2
    neighbour_parents: int = 3
    min_samples_per_sketch: int = 4
    max_attempts_per_sketch: int = 12


DEFAULTS = EvolutionConfig()


class EvolutionaryStrategy:
    """Evolves decisions. With a ``pool`` it ranks only the points of the pool, for replaying measured data."""

    def __init__(
        self, space: SearchSpace, selector: CandidateSelector, model: CostModel, extractor: FeatureExtractor, seed: int,
        pool: Population | None = None, config: EvolutionConfig = DEFAULTS,
    ) -> None:  # fmt: skip
        self._space = space
        self._selector = selector
        self._model = model
        self._extractor = extractor
        self._random = np.random.default_rng(seed)
        self._operators = GeneticOperators(space.sketches, self._random)
        self._pool = pool
        self._config = config
        self._valid: list[tuple[float, Point]] = []
        self._since_gain = 0
        self._best_at_last_gain_s = float("inf")
        self._samples = np.zeros(len(space.sketches), np.int64)
        self._attempts = np.zeros(len(space.sketches), np.int64)
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
        """Add results, and train the model if enough of them are new."""
        started = time.perf_counter()
        for outcome in outcomes:
            if isinstance(outcome.result, Failed):
                self._selector.known.note_failure(outcome.proposal.scheduled, outcome.result.failure)
        informative = [o for o in outcomes if o.proposal.scheduled.point is not None and not _is_uninformative(o)]
        if informative:
            self._learn(informative)
        self._train_s += time.perf_counter() - started

    def report(self) -> StrategyReport:
        """Seconds spent, counts of dropped points, and the accuracy of the last predictions."""
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
        order = [
            (random, neighbour, evolved)[n]
            for n in self._random.choice(3, size=self._config.proposals_per_plan, p=shares)
        ]
        sources = {
            random: self._random_points(),
            neighbour: self._neighbour_points(),
            evolved: self._evolved_points(),
        }
        return Plan(sources, order, fallback=evolved)

    def _random_share(self) -> float:
        config = self._config
        if self._samples.sum() < config.initial_trials:
            return config.initial_random_share
        return config.plateau_random_share if self._since_gain >= config.plateau_trials else config.random_share

    @property
    def _undersampled(self) -> npt.NDArray[np.bool_]:
        """Mask of the sketches with too few samples; shape [sketches]."""
        return (self._samples < self._config.min_samples_per_sketch) & (
            self._attempts < self._config.max_attempts_per_sketch
        )

    def _learn(self, outcomes: Sequence[Outcome]) -> None:
        points = [o.proposal.scheduled.point for o in outcomes if o.proposal.scheduled.point is not None]
        population = self._operators.of_points(points)
        np.add.at(self._samples, population.sketch, 1)
        features, prior = features_of(population, self._space.sketches, self._extractor)
        self._model.add(features, prior, [sample_of(o.result, o.build_s) for o in outcomes])
        self._valid += [
            (o.result.latency_s, point)
            for o, point in zip(outcomes, points, strict=True)
            if isinstance(o.result, Timing)
        ]
        self._valid.sort(key=lambda entry: entry[0])
        self._since_gain += len(outcomes)
        if self._valid and is_gain(self._valid[0][0], self._best_at_last_gain_s):
            self._since_gain, self._best_at_last_gain_s = 0, self._valid[0][0]
        if self._model.is_due:
            accuracy = self._model.learn()
            if any(o.proposal.score is not None for o in outcomes):  # earlier runs are no predictions
                self._accuracy = accuracy or self._accuracy
            self._plan = None

    def _rank(self, population: Population) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The worth of measuring each point, its score, and its expected build time in seconds."""
        features, prior = features_of(population, self._space.sketches, self._extractor)
        prediction = self._model.predict(features, prior)
        slower = np.log2(np.maximum(prediction.build_s / self._model.typical_build_s, 1.0))
        config, score = self._config, prediction.score
        worth = score + config.spread_weight * prediction.spread - config.build_penalty * np.nan_to_num(slower)
        return worth, score, prediction.build_s

    def _random_points(self) -> Iterator[RankedPoint]:
        points = self._pool
        if points is None:
            points = self._prefer_undersampled(self._operators.sample(self._config.random_points))
        points = self._unseen(points)
        if not len(points):
            return
        worth, score, build_s = self._rank(points)
        # Half of all random points are slow by any estimate: draw from the better half.
        better = np.argsort(-worth)[: max(1, np.isfinite(worth).sum() // 2)]
        yield from self._ranked_points(points, self._random.permutation(better), score, build_s, CandidateOrigin.RANDOM)

    def _prefer_undersampled(self, population: Population) -> Population:
        """Points of the undersampled sketch with the fewest samples and attempts; all points if there is none."""
        undersampled = np.flatnonzero(self._undersampled)
        if not len(undersampled):
            return population
        sketch = undersampled[np.argmin(self._samples[undersampled] + self._attempts[undersampled])]
        self._attempts[sketch] += 1
        return population.take(np.flatnonzero(population.sketch == sketch))

    def _neighbour_points(self) -> Iterator[RankedPoint]:
        for _, point in self._valid[: self._config.neighbour_parents]:
            steps, elsewhere = self._operators.neighbours(point), self._operators.transplants(point)
            near = self._unseen(self._operators.join([steps, elsewhere]))
            if len(near):
                worth, score, build_s = self._rank(near)
                order = np.lexsort((-worth, ~self._is_large_step(near, point)))
                yield from self._ranked_points(near, order, score, build_s, CandidateOrigin.NEIGHBOUR)

    def _is_large_step(self, near: Population, point: Point) -> npt.NDArray[np.bool_]:
        """Mask of the neighbours with another sketch than ``point``, another choice, or a block moved out of all loops.

        They are few, and the effect of a sketch or an unroll depth depends on all tiles. The model extrapolates badly
        to them from other points, so they are tried first.
        """
        is_large = np.asarray(near.sketch != point.sketch)
        same = np.flatnonzero(~is_large)
        for number, column in enumerate(self._space.sketches[point.sketch].columns):
            rows = near.rows[same, number]
            is_other = rows != point.rows[number]
            if column.kind == "choice":
                is_large[same] |= is_other
            elif column.kind == "location":
                is_large[same] |= is_other & (column.table[rows, 0] < 0)
        return is_large

    def _evolved_points(self) -> Iterator[RankedPoint]:
        finalists = self._config.finalists
        population = self._unseen(self._evolved())
        if len(population) < finalists and self._pool is None:
            # Most of the best points are already known, as at the end of a small space: add random points.
            more = self._operators.sample(4 * self._config.random_points)
            population = self._operators.join([population, self._unseen(more)])
        if not len(population):
            return
        worth, score, build_s = self._rank(population)
        order = np.argsort(-worth, kind="stable")
        head = order[np.isfinite(worth[order])][:finalists]
        features, _ = features_of(population.take(head), self._space.sketches, self._extractor)
        order = np.concatenate([head[diverse_order(features, worth[head])], order[len(head) :]])
        origin = CandidateOrigin.EVOLVED if self._valid else CandidateOrigin.RANDOM
        yield from self._ranked_points(population, order, score, build_s, origin)

    def _evolved(self) -> Population:
        if self._pool is not None:
            return self._pool
        config, operators = self._config, self._operators
        if self._space.points <= config.small_space:
            return self._shuffled(operators.every_point())
        parts = [operators.sample(config.random_points)]
        if self._valid:
            elites = operators.of_points([point for _, point in self._valid[: config.elites]])
            parts += [operators.mutate(elites, config.elite_restart) for _ in range(config.mutants_per_elite)]
            children = operators.cross(elites, config.mutants_per_elite * config.elites)
            parts += [operators.mutate(children, config.child_restart)]
            parts += [operators.neighbours(self._valid[0][1])]
        population = operators.join(parts)
        for _ in range(config.generations):
            worth, _, _ = self._rank(population)
            kept = population.take(np.argsort(-worth)[: config.survivors])
            mutants = (operators.mutate(kept, config.restart) for _ in range(config.mutants_per_survivor))
            population = operators.join([kept, *mutants]).unique()
        return population

    def _unseen(self, population: Population) -> Population:
        """New points. If each seems to be moved to a known one, returns them unmoved: the assumption may be wrong."""
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
        for number in order[np.isfinite(score[order])]:  # the others run on no such device
            expected = float(build_s[number])
            yield RankedPoint(
                population.point(int(number), self._space.sketches),
                origin,
                float(score[number]),
                None if np.isnan(expected) else expected,
            )


def _is_uninformative(outcome: Outcome) -> bool:
    """Whether a failure may have causes other than the candidate."""
    return isinstance(outcome.result, Failed) and outcome.result.failure.may_be_tried_again
