"""Sets of points as arrays, over all sketches of a space."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.model.boosting import FeatureArray, FloatArray
from tunefarm_search.space.decisions import SketchSpace
from tunefarm_search.space.scheduling import Point


@dataclass(frozen=True)
class Population:
    """Points as arrays.

    Attributes:
        sketch: number of each point's sketch; shape [points].
        rows: row numbers, padded with zeros to the widest sketch; shape [points, width].
    """

    sketch: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.sketch)

    def take(self, chosen: npt.NDArray[np.integer[Any]]) -> "Population":
        """The points with the given numbers."""
        return Population(self.sketch[chosen], self.rows[chosen])

    def point(self, number: int, sketches: Sequence[SketchSpace]) -> Point:
        """One of the points."""
        sketch = int(self.sketch[number])
        return Point(sketch, tuple(self.rows[number, : len(sketches[sketch].columns)].tolist()))

    def unique(self) -> "Population":
        """Without repeats, in the order of first appearance."""
        together = np.concatenate([self.sketch[:, None], self.rows], axis=1)
        _, first = np.unique(together, axis=0, return_index=True)
        return self.take(np.sort(first))


class GeneticOperators:
    """Creates populations: samples, mutates and crosses points, each within its sketch."""

    def __init__(self, sketches: Sequence[SketchSpace], random: np.random.Generator) -> None:
        self._sketches = tuple(sketches)
        self._random = random
        self._width = max(len(sketch.columns) for sketch in sketches)

    def of_rows(self, sketch: int, rows: npt.NDArray[np.int32]) -> Population:
        """A population from points of one sketch."""
        padded = np.zeros((len(rows), self._width), np.int32)
        padded[:, : rows.shape[1]] = rows
        return Population(np.full(len(rows), sketch, np.int32), padded)

    def of_points(self, points: Sequence[Point]) -> Population:
        """A population from single points."""
        rows = np.zeros((len(points), self._width), np.int32)
        for number, point in enumerate(points):
            rows[number, : len(point.rows)] = point.rows
        return Population(np.array([point.sketch for point in points], np.int32), rows)

    def join(self, parts: Sequence[Population]) -> Population:
        """All points of several populations."""
        return Population(
            np.concatenate([part.sketch for part in parts]), np.concatenate([part.rows for part in parts])
        )

    def sample(self, count: int) -> Population:
        """Random points; every sketch is equally likely."""
        numbers = self._random.integers(0, len(self._sketches), size=count)
        parts = [
            self.of_rows(number, sketch.sample(self._random, int((numbers == number).sum())))
            for number, sketch in enumerate(self._sketches)
        ]
        return self.join(parts)

    def mutate(self, population: Population, restart: float) -> Population:
        """Change each point a little. A changed decision is resampled with probability ``restart``."""
        rows = population.rows.copy()
        for number in np.unique(population.sketch):
            members = np.flatnonzero(population.sketch == number)
            width = len(self._sketches[number].columns)
            rows[members, :width] = self._sketches[number].mutate(
                self._random, population.rows[members, :width], restart
            )
        return Population(population.sketch, rows)

    def cross(self, parents: Population, count: int) -> Population:
        """``count`` children of random parents; both parents of a child have the same sketch."""
        first = self._random.integers(0, len(parents), size=count)
        second = first.copy()
        for number in np.unique(parents.sketch):
            mates = np.flatnonzero(parents.sketch == number)
            members = np.flatnonzero(parents.sketch[first] == number)
            second[members] = self._random.choice(mates, size=len(members))
        mothers, fathers = parents.take(first), parents.take(second)
        taken = self._random.random(mothers.rows.shape) < 0.5
        return Population(mothers.sketch, np.where(taken, mothers.rows, fathers.rows).astype(np.int32))

    def neighbours(self, point: Point) -> Population:
        """All points one step from a point."""
        return self.of_rows(point.sketch, self._sketches[point.sketch].neighbours(point.row))

    def one_decision_apart(self, point: Point, max_rows: int) -> Population:
        """Points that differ from a point in one decision, by however many steps; so many of each decision at most."""
        return self.of_rows(point.sketch, self._sketches[point.sketch].one_decision_apart(point.row, max_rows))

    def transplants(self, point: Point) -> Population:
        """The decisions of a point in each other sketch, whose additional decisions are drawn at random."""
        taken = dict(zip((column.slot for column in self._sketches[point.sketch].columns), point.rows, strict=True))
        parts = [self.of_rows(0, np.zeros((0, 0), np.int32))]
        for sketch in self._sketches:
            if sketch.number == point.sketch:
                continue
            row = sketch.sample(self._random, 1)
            for place, column in enumerate(sketch.columns):
                if taken.get(column.slot, len(column.table)) < len(column.table):
                    row[0, place] = taken[column.slot]
            parts.append(self.of_rows(sketch.number, row))
        return self.join(parts)

    def every_point(self) -> Population:
        """All points of the space, for small spaces."""
        return self.join([self.of_rows(sketch.number, sketch.all_points()) for sketch in self._sketches])


def features_of(
    population: Population, sketches: Sequence[SketchSpace], extractor: FeatureExtractor
) -> tuple[FeatureArray, FloatArray]:
    """Features of shape [points, names] and the prior of shape [points]."""
    features = np.empty((len(population), len(extractor.names)), np.float32)
    prior = np.empty(len(population))
    for number in np.unique(population.sketch):
        members = population.sketch == number
        width = len(sketches[number].columns)
        features[members], prior[members] = extractor.features(int(number), population.rows[members, :width])
    return features, prior
