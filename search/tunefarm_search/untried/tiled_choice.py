"""The point of a search space with the lowest analytical cost.

1. Estimate random points; of a small space, all points.
2. Keep the best ones, and the best of each sketch, which may overtake the others.
3. Add a mutant of each, the neighbours of the best few of each sketch, and all values of each decision in the best one.
4. Repeat 2 and 3 for a few generations. Return the points with the lowest estimates.

An estimate is the analytical cost and what the point risks without being measured: loops that LLVM leaves without
vectors, bodies that it does not unroll, and bodies that it takes long for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tunefarm_search.features.features import FeatureExtractor, machine_of
from tunefarm_search.model.boosting import FloatArray
from tunefarm_search.model.population import GeneticOperators, Population, features_of
from tunefarm_search.space.scheduling import Point
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.tvm.target import FLOAT_BYTES

VECTOR: Final = "loops0.fused_vector"
"""The feature with the logarithm of the elements that TVM vectorises: LLVM seldom finds vectors in other loops."""
RESULTS: Final = "loops0.accumulators"
"""The feature with the logarithm of the vectors of results that are kept at once."""


@dataclass(frozen=True)
class CheapestPointConfig:
    """The constants of the choice. Risks are in doublings of the cycles: 0.25 stands for a factor of 1.19.

    Attributes:
        seed: of the random numbers. It is fixed, so that a function gets the same schedule each time.
        random_points: points of the first generation; smaller spaces are enumerated.
        generations: rounds of selection and mutation.
        kept: points that each round keeps.
        kept_per_sketch: points of each sketch that it keeps in any case.
        restart: probability that a mutated decision is resampled instead of moved by one step.
        stepped_per_sketch: so many of the best points of each sketch have all their neighbours estimated, which takes
            microseconds each.
        values_per_decision: at most so many values of each decision are tried in the best point of a sketch.
        rolled_risk: risk of a body that TVM does not unroll: between equal estimates, the unrolled one is taken.
        long_steps: TVM unrolls bodies of so many steps or more into code that LLVM takes long for.
        long_risk: risk of such a body, lower than ``rolled_risk``: long code is better than a loop.
    """

    seed: int = 1
    random_points: int = 1024
    generations: int = 5
    kept: int = 48
    kept_per_sketch: int = 16
    restart: float = 0.1
    stepped_per_sketch: int = 8
    values_per_decision: int = 1024
    rolled_risk: float = 0.25
    long_steps: int = 512
    long_risk: float = 0.2


DEFAULTS: Final = CheapestPointConfig()


def cheapest_points(space: SearchSpace, count: int) -> Sequence[tuple[Point, float]]:
    """The best points found, and their estimated cycles, in ascending order; empty if nothing can be estimated."""
    extractor = FeatureExtractor(space)
    operators = GeneticOperators(space.sketches, np.random.default_rng(DEFAULTS.seed))
    if space.points <= DEFAULTS.random_points:
        population = operators.every_point()
        prior = _prior(population, space, extractor)
    else:
        population = operators.sample(DEFAULTS.random_points)
        prior = _prior(population, space, extractor)
        for _ in range(DEFAULTS.generations):
            population = _next_generation(population.take(_kept(prior, population.sketch)), space, operators)
            prior = _prior(population, space, extractor)
    order = np.argsort(-prior)[:count]
    points = [(population.point(int(n), space.sketches), float(2.0 ** -prior[n])) for n in order]
    return [(point, cycles) for point, cycles in points if np.isfinite(cycles)]


def _kept(prior: FloatArray, sketch: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The numbers of the best points, and of the best of each sketch, which may overtake the others; in order."""
    order = np.argsort(-prior)
    each = [order[sketch[order] == number][: DEFAULTS.kept_per_sketch] for number in np.unique(sketch)]
    wanted = np.zeros(len(order), bool)
    wanted[np.concatenate([order[: DEFAULTS.kept], *each])] = True
    return np.asarray(order[wanted[order]])


def _next_generation(kept: Population, space: SearchSpace, operators: GeneticOperators) -> Population:
    """The kept points, in ascending order of cost, a mutant of each, and what is around the best of each sketch."""
    parts = [kept, operators.mutate(kept, DEFAULTS.restart)]
    for number in np.unique(kept.sketch):
        best = np.flatnonzero(kept.sketch == number)[: DEFAULTS.stepped_per_sketch]
        first, *others = (kept.point(int(n), space.sketches) for n in best)
        parts.append(operators.one_decision_apart(first, DEFAULTS.values_per_decision))
        parts += map(operators.neighbours, others)
    return operators.join(parts).unique()


def _prior(population: Population, space: SearchSpace, extractor: FeatureExtractor) -> FloatArray:
    """The logarithm of the estimated speed, less what a point risks without being measured; -inf if unknown."""
    features, prior = features_of(population, space.sketches, extractor)
    prior = np.where(np.isnan(prior), -np.inf, prior)
    if VECTOR not in extractor.names:
        return prior
    vector, results = (np.nan_to_num(features[:, extractor.names.index(name)]) for name in (VECTOR, RESULTS))
    lanes = machine_of(space.target).lanes(FLOAT_BYTES)
    narrow = np.maximum(np.log2(lanes / 2) - vector, 0.0)
    return np.asarray(prior - narrow - _unrolling_risk(population, space, np.rint(2.0**results)))


def _unrolling_risk(population: Population, space: SearchSpace, results: FloatArray) -> FloatArray:
    """Between equal estimates, prefer a body that TVM unrolls, but not one that LLVM takes long for.

    ``results`` is the number of vectors of results in the body; shape [points].
    """
    risk = np.zeros(len(population))
    for sketch in space.sketches:
        members = np.flatnonzero(population.sketch == sketch.number)
        for number, column in enumerate(sketch.columns):
            if column.kind == "choice":
                steps = np.array(column.values)[column.table[population.rows[members, number], 0]]
                is_rolled = steps < results[members]
                unrolled = np.where(steps >= DEFAULTS.long_steps, DEFAULTS.long_risk, 0.0)
                risk[members] += np.where(is_rolled, DEFAULTS.rolled_risk, unrolled)
    return risk
