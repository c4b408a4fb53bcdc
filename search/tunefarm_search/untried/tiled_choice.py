"""The point of a search space with the lowest analytical cost."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tunefarm_search.features.features import FeatureExtractor, machine_of
from tunefarm_search.model.boosting import FloatArray
from tunefarm_search.model.population import GeneticOperators, Population, features_of
from tunefarm_search.space.scheduling import Point
from tunefarm_search.space.space import SearchSpace

RANDOM_POINTS: Final = 1024
GENERATIONS: Final = 6
KEPT: Final = 64
MUTANTS: Final = 4
SEED: Final = 1
VECTOR: Final = "loops0.fused_vector"
"""The feature with the logarithm of the elements that TVM vectorises: LLVM seldom finds vectors in other loops."""
ELEMENT_BYTES: Final = 4
"""Of the elements that vectors are chosen for: floats."""
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
            kept = population.take(np.argsort(-prior)[:KEPT])
            parts = [kept, *(operators.mutate(kept, 0.1) for _ in range(MUTANTS))]
            best = kept.point(0, space.sketches)
            population = operators.join([*parts, operators.neighbours(best)]).unique()
            prior = _prior(population, space, extractor)
    order = np.argsort(-prior)[:count]
    points = [(population.point(int(n), space.sketches), float(2.0 ** -prior[n])) for n in order]
    return [(point, cycles) for point, cycles in points if np.isfinite(cycles)]


def _prior(population: Population, space: SearchSpace, extractor: FeatureExtractor) -> FloatArray:
    """The logarithm of the estimated speed, less what a point risks without being measured; -inf if unknown."""
    features, prior = features_of(population, space.sketches, extractor)
    prior = np.where(np.isnan(prior), -np.inf, prior)
    if VECTOR in extractor.names:
        vector = np.nan_to_num(features[:, extractor.names.index(VECTOR)], nan=0.0)
        lanes = machine_of(space.target).lanes(ELEMENT_BYTES)
        prior = prior - np.maximum(np.log2(lanes / 2) - vector, 0.0)
    return prior - _unrolling_risk(population, space)


def _unrolling_risk(population: Population, space: SearchSpace) -> FloatArray:
    """Between equal estimates, prefer a body that TVM unrolls, but not one that LLVM takes long for."""
    risk = np.zeros(len(population))
    for sketch in space.sketches:
        members = np.flatnonzero(population.sketch == sketch.number)
        for number, column in enumerate(sketch.columns):
            if column.kind == "choice":
                steps = np.array(column.values)[column.table[population.rows[members, number], 0]]
                risk[members] += np.where(steps == 0, ROLLED_RISK, np.where(steps >= LONG, LONG_RISK, 0.0))
    return risk
