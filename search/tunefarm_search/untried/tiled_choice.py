"""The point of a search space with the lowest analytical cost."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tunefarm_search.features.features import FeatureExtractor, machine_of
from tunefarm_search.model.boosting import FloatArray
from tunefarm_search.model.population import GeneticOperators, Population, features_of
from tunefarm_search.space.scheduling import Point
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.tvm.target import FLOAT_BYTES

RANDOM_POINTS: Final = 1024
ROWS_OF_COLUMN: Final = 1024
"""At most so many values of each decision are tried in the best point of a sketch."""
GENERATIONS: Final = 5
KEPT: Final = 48
KEPT_OF_SKETCH: Final = 16
STEPPED_OF_SKETCH: Final = 8
"""So many of the best points of each sketch have all their neighbours estimated, which takes microseconds each."""
SEED: Final = 1
VECTOR: Final = "loops0.fused_vector"
"""The feature with the logarithm of the elements that TVM vectorises: LLVM seldom finds vectors in other loops."""
RESULTS: Final = "loops0.accumulators"
"""The feature with the logarithm of the vectors of results that are kept at once."""
ROLLED_RISK: Final = 0.25
LONG: Final = 512
LONG_RISK: Final = 0.2


def cheapest_points(space: SearchSpace, count: int) -> Sequence[tuple[Point, float]]:
    """The best points found, and their estimated cycles, in ascending order; empty if nothing can be estimated."""
    extractor = FeatureExtractor(space)
    operators = GeneticOperators(space.sketches, np.random.default_rng(SEED))
    if space.points <= RANDOM_POINTS:
        population = operators.every_point()
        prior = _prior(population, space, extractor)
    else:
        population = operators.sample(RANDOM_POINTS)
        prior = _prior(population, space, extractor)
        for _ in range(GENERATIONS):
            population = _next_generation(population.take(_kept(prior, population.sketch)), space, operators)
            prior = _prior(population, space, extractor)
    order = np.argsort(-prior)[:count]
    points = [(population.point(int(n), space.sketches), float(2.0 ** -prior[n])) for n in order]
    return [(point, cycles) for point, cycles in points if np.isfinite(cycles)]


def _kept(prior: FloatArray, sketch: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The numbers of the best points, and of the best of each sketch, which may overtake the others; in order."""
    order = np.argsort(-prior)
    each = [order[sketch[order] == number][:KEPT_OF_SKETCH] for number in np.unique(sketch)]
    wanted = np.zeros(len(order), bool)
    wanted[np.concatenate([order[:KEPT], *each])] = True
    return np.asarray(order[wanted[order]])


def _next_generation(kept: Population, space: SearchSpace, operators: GeneticOperators) -> Population:
    """The kept points, in ascending order of cost, a mutant of each, and what is around the best of each sketch."""
    parts = [kept, operators.mutate(kept, 0.1)]
    for number in np.unique(kept.sketch):
        best = np.flatnonzero(kept.sketch == number)[:STEPPED_OF_SKETCH]
        first, *others = (kept.point(int(n), space.sketches) for n in best)
        parts += [operators.one_decision_apart(first, ROWS_OF_COLUMN), *map(operators.neighbours, others)]
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
                risk[members] += np.where(is_rolled, ROLLED_RISK, np.where(steps >= LONG, LONG_RISK, 0.0))
    return risk
