"""The decisions of a sketch as a grid of finite choices, and points in it.

Every sampling instruction is a column with a table of all its possible decisions; a point holds one row number per
column. Populations are therefore integer arrays, and sampling, mutation and crossover are array operations.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.space.factorization import Factorizations, factorizations
from tunefarm_search.tvm.trace import Instruction, TraceSteps, steps_of

ColumnKind = Literal["tile", "choice", "location"]
Rows = npt.NDArray[np.int32]
"""Points of one sketch: shape [points, columns], each entry a row of its column's table."""

DEEPEST_LOCATION = 14


@dataclass(frozen=True)
class Column:
    """One sampling instruction.

    Attributes:
        instruction: its number in the sketch.
        slot: a name that the corresponding columns of other sketches and shapes share.
        table: shape [rows, width]; the decision of each row. A tile has one factor per level, the others one number.
    """

    kind: ColumnKind
    instruction: int
    slot: str
    table: npt.NDArray[np.int64]
    tiles: Factorizations | None = None
    values: tuple[float, ...] = ()
    """For a choice: the numbers to choose from."""

    def decision(self, row: int) -> Any:
        """The decision in the form that TVM accepts."""
        if self.kind == "tile":
            return [int(factor) for factor in self.table[row]]
        return int(self.table[row, 0])

    def row_of(self, decision: Any) -> int | None:
        """The row of a TVM decision, or None if the table does not contain it."""
        if self.tiles is not None:
            return self.tiles.index.get(tuple(int(factor) for factor in decision))
        found = np.flatnonzero(self.table[:, 0] == int(decision))
        return int(found[0]) if len(found) else None

    def nearest_row(self, decision: Sequence[int]) -> int:
        """For a tile: the row closest to factors of another extent, by the logarithms of the inner levels."""
        inner = np.log2(np.maximum(self.table[:, 1:], 1)) - np.log2(np.maximum(np.asarray(decision)[1:], 1))
        weights = np.arange(1, inner.shape[1] + 1)
        return int(np.argmin((inner**2 * weights).sum(axis=1)))


@dataclass(frozen=True)
class SketchSpace:
    """One sketch with its columns. ``number`` is its position in the space."""

    number: int
    steps: TraceSteps
    columns: tuple[Column, ...]

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Number of rows of each column."""
        return np.array([len(column.table) for column in self.columns], np.int64)

    @property
    def points(self) -> float:
        """Number of points."""
        return math.prod(float(size) for size in self.sizes)

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        """Points drawn uniformly over the factorizations and choices."""
        return random.integers(0, self.sizes[None, :], size=(count, len(self.columns))).astype(np.int32)

    def all_points(self) -> Rows:
        """Every point, for small spaces."""
        grids = np.meshgrid(*[np.arange(size) for size in self.sizes], indexing="ij")
        if not grids:
            return np.zeros((1, 0), np.int32)
        return np.stack([grid.ravel() for grid in grids], axis=1).astype(np.int32)

    def mutate(self, random: np.random.Generator, rows: Rows, restart: float) -> Rows:
        """Change one to three columns of every point: a small step, or with probability ``restart`` any other row."""
        mutated = rows.copy()
        if not self.columns or not len(rows):
            return mutated
        for step in range(3):
            chosen = random.random(len(rows)) < (1.0, 0.5, 0.25)[step]
            columns = random.choice(len(self.columns), size=len(rows), p=self._mutation_weights)
            for number in np.unique(columns[chosen]):
                members = np.flatnonzero(chosen & (columns == number))
                mutated[members, number] = self._stepped(random, int(number), mutated[members, number], restart)
        return mutated

    def neighbours(self, row: npt.NDArray[np.int32]) -> Rows:
        """All points one step away from a point: one prime moved, or one choice or location changed."""
        others = [self._one_step(column, int(row[number])) for number, column in enumerate(self.columns)]
        return _replaced(row, others)

    def one_decision_apart(self, row: npt.NDArray[np.int32], max_rows: int) -> Rows:
        """Points with any row of one column in place of the point's own: far more than there are neighbours.

        Of a column with more than ``max_rows`` rows, takes as many or fewer, evenly spaced.
        """
        return _replaced(row, [np.arange(0, size, math.ceil(size / max_rows)) for size in self.sizes.tolist()])

    def decisions(self, row: npt.NDArray[np.int32]) -> dict[int, Any]:
        """Decisions by the number of their instruction, in TVM's form."""
        return {c.instruction: c.decision(int(r)) for c, r in zip(self.columns, row, strict=True)}

    def row_of(self, decisions: dict[int, Any]) -> npt.NDArray[np.int32] | None:
        """The point with these decisions, or None if a table does not contain one or a decision is missing."""
        rows = []
        for column in self.columns:
            if column.instruction not in decisions:
                return None
            row = column.row_of(decisions[column.instruction])
            if row is None:
                return None
            rows.append(row)
        return np.array(rows, np.int32)

    def nearest_row(self, decisions: dict[int, Any]) -> npt.NDArray[np.int32]:
        """The point closest to the decisions of another shape; missing ones become the first row."""
        rows = []
        for column in self.columns:
            decision = decisions.get(column.instruction)
            if decision is None:
                rows.append(0)
                continue
            exact = column.row_of(decision)
            rows.append(exact if exact is not None else column.nearest_row(decision) if column.tiles else 0)
        return np.array(rows, np.int32)

    @cached_property
    def _mutation_weights(self) -> npt.NDArray[np.float64]:
        """Change columns with more choices more often."""
        weights = np.log2(self.sizes + 1.0) * (self.sizes > 1) + 1e-9
        normalised: npt.NDArray[np.float64] = weights / weights.sum()
        return normalised

    def _stepped(
        self, random: np.random.Generator, number: int, rows: npt.NDArray[np.int32], restart: float
    ) -> npt.NDArray[np.int32]:
        column, size = self.columns[number], int(self.sizes[number])
        anywhere = random.integers(0, size, size=len(rows))
        if column.tiles is None:
            return anywhere.astype(np.int32)
        table, counts = column.tiles.neighbours
        picked = (random.random(len(rows)) * counts[rows]).astype(np.int64)
        stepped = np.where(counts[rows] > 0, table[rows, picked], rows)
        return np.where(random.random(len(rows)) < restart, anywhere, stepped).astype(np.int32)

    @staticmethod
    def _one_step(column: Column, row: int) -> npt.NDArray[np.int64]:
        if column.tiles is not None:
            table, counts = column.tiles.neighbours
            return table[row, : counts[row]]
        return np.delete(np.arange(len(column.table)), row)


def _replaced(row: npt.NDArray[np.int32], others: Sequence[npt.NDArray[np.int64]]) -> Rows:
    """A point for each of these rows of each column, which replaces the point's own."""
    points = np.repeat(row[None, :].astype(np.int32), sum(map(len, others)), axis=0)
    end = 0
    for number, rows in enumerate(others):
        points[end : end + len(rows), number] = rows
        end += len(rows)
    return points


def sketch_space(number: int, trace: Trace) -> SketchSpace:
    """Build the grid of a sketch from a trace of it with decisions, which determine the extents.

    Raises:
        ValueError: a sampling instruction of the trace has no decision.
    """
    steps = steps_of(trace)
    names = _names_of_variables(steps.instructions)
    slots: set[str] = set()
    columns: list[Column] = []
    for instruction in steps.sampling:
        if instruction not in steps.decisions:
            raise ValueError(f"the sampling instruction {instruction} has no decision")
        slot = _slot(steps.instructions[instruction], names, len(columns))
        slot = slot if slot not in slots else f"{slot}#{len(columns)}"
        slots.add(slot)
        step, decision = steps.instructions[instruction], steps.decisions[instruction]
        columns.append(_column(instruction, slot, step, decision))
    return SketchSpace(number, steps, tuple(columns))


def _column(number: int, slot: str, step: Instruction, decision: Any) -> Column:
    if step.kind == "SampleCategorical":
        values = tuple(float(value) for value in step.attributes[0])
        return Column("choice", number, slot, np.arange(len(values))[:, None], values=values)
    if step.kind == "SampleComputeLocation":
        return Column("location", number, slot, np.arange(-2, max(DEEPEST_LOCATION, int(decision)) + 1)[:, None])
    factors = [int(factor) for factor in decision]
    extent = math.prod(factors)
    if step.kind == "SamplePartitionedTile":
        tiles = _partitioned(extent, len(factors), int(step.attributes[1]), int(step.attributes[2]))
    else:
        max_innermost = int(step.attributes[1])
        tiles = factorizations(extent, len(factors), max_innermost if max_innermost > 0 else extent)
    return Column("tile", number, slot, tiles.rows, tiles)


def _partitioned(extent: int, levels: int, position: int, inner_factor: int) -> Factorizations:
    """Factorizations whose factors from ``position`` on have a product that ``inner_factor`` divides."""
    every = factorizations(extent, levels, extent)
    allowed = every.rows[every.rows[:, position:].prod(axis=1) % inner_factor == 0]
    return Factorizations(extent, allowed if len(allowed) else every.rows)


def _names_of_variables(instructions: Sequence[Instruction]) -> dict[str, str]:
    """What each random variable stands for, in terms that other shapes and sketches share."""
    names: dict[str, str] = {}
    for step in instructions:
        source = names.get(str(step.inputs[0]), "") if step.inputs else ""
        for position, output in enumerate(step.outputs):
            if step.kind == "GetSBlock":
                names[output] = str(step.attributes[0])
            elif step.kind == "GetLoops":
                names[output] = f"{source}.{position}"
            else:
                names[output] = f"{source}>{step.kind}.{position}"
    return names


def _slot(step: Instruction, names: dict[str, str], ordinal: int) -> str:
    if step.kind == "SampleCategorical":
        return f"choice:{ordinal if len(step.attributes[0]) < 2 else max(step.attributes[0])}"
    return f"{step.kind}:{names.get(str(step.inputs[0]), ordinal)}"
