"""Remembers locations that TVM replaces, to recognise repeats without applying them.

1. Compare each applied point with the proposed one, and remember the locations that were replaced and those kept.
2. Assume that a location always moves once it was replaced often and never kept.
3. In new points, replace these locations by those that TVM took last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunefarm_search.model.population import Population
from tunefarm_search.space.decisions import SketchSpace
from tunefarm_search.space.scheduling import Point


@dataclass(frozen=True)
class MovesConfig:
    """The constants of the assumption.

    Attributes:
        min_moves: a location that was moved this often and never kept is assumed to always move. Other decisions may
            have caused one move; the same move under several others is likely a property of the space.
    """

    min_moves: int = 4


DEFAULTS = MovesConfig()


class MovedDecisions:
    """The locations that TVM substitutes for those in the decisions.

    TVM determines which loops a block may move to when it applies a trace, and replaces a location that does not exist
    by the next lower one. Different points then have the same schedule; in some spaces most of them do.
    """

    def __init__(self, sketches: Sequence[SketchSpace], config: MovesConfig = DEFAULTS) -> None:
        self._sketches = tuple(sketches)
        self._config = config
        self._moved: dict[tuple[int, int, int], list[int]] = {}
        self._kept: set[tuple[int, int, int]] = set()

    def note(self, proposed: Point, applied: Point) -> None:
        """Remember the locations of ``proposed`` that TVM replaced in ``applied``."""
        for number, column in enumerate(self._sketches[proposed.sketch].columns):
            if column.kind != "location":
                continue
            end = applied.rows[number]
            self._kept.add((proposed.sketch, number, end))
            for row in range(end + 1, proposed.rows[number] + 1):
                self._moved.setdefault((proposed.sketch, number, row), []).append(end)
            if proposed.rows[number] < end:
                self._moved.setdefault((proposed.sketch, number, proposed.rows[number]), []).append(end)

    def settle(self, population: Population) -> Population:
        """The points with locations replaced by those that TVM is expected to substitute."""
        rows = population.rows.copy()
        for (sketch, column, row), ends in self._moved.items():
            if len(ends) >= self._config.min_moves and (sketch, column, row) not in self._kept:
                rows[(population.sketch == sketch) & (population.rows[:, column] == row), column] = ends[-1]
        return Population(population.sketch, np.ascontiguousarray(rows))
