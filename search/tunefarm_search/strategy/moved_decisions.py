"""Memory of locations that TVM does not accept, so that their points are known for repeats without applying them."""

from collections.abc import Sequence

import numpy as np

from tunefarm_search.model.population import Population
from tunefarm_search.space.decisions import SketchSpace
from tunefarm_search.space.scheduling import Point

SURE_AFTER = 4
"""A location moved as often, and never kept, is taken to move always."""


class MovedDecisions:
    """Where decisions of location columns end up.

    Which loops a block may move to is found out by TVM when it applies a trace; a location that does not exist becomes
    the next lower one. Different points so give the same schedule, in some spaces most of them.
    """

    def __init__(self, sketches: Sequence[SketchSpace]) -> None:
        self._sketches = tuple(sketches)
        self._moved: dict[tuple[int, int, int], list[int]] = {}
        self._kept: set[tuple[int, int, int]] = set()

    def note(self, asked: Point, applied: Point) -> None:
        """Remember what became of one point."""
        for number, column in enumerate(self._sketches[asked.sketch].columns):
            if column.kind != "location":
                continue
            end = applied.rows[number]
            self._kept.add((asked.sketch, number, end))
            for row in range(end + 1, asked.rows[number] + 1):
                self._moved.setdefault((asked.sketch, number, row), []).append(end)
            if asked.rows[number] < end:
                self._moved.setdefault((asked.sketch, number, asked.rows[number]), []).append(end)

    def settle(self, population: Population) -> Population:
        """The points with locations replaced by where they would be moved to."""
        rows = population.rows.copy()
        for (sketch, column, row), ends in self._moved.items():
            if len(ends) >= SURE_AFTER and (sketch, column, row) not in self._kept:
                rows[(population.sketch == sketch) & (population.rows[:, column] == row), column] = ends[-1]
        return Population(population.sketch, np.ascontiguousarray(rows))
