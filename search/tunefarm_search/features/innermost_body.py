"""The compiled form of the innermost loops: one body without loops, and the values it keeps in registers.

TVM unrolls as far as a schedule requests. LLVM then unrolls the innermost loops while the body stays short, vectorises
the loop over neighbouring elements if TVM did not, and keeps results in registers while all loops around the body are
reductions.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tunefarm_search.features.loop_nest import FloatArray, LoopNest

MAX_OPERATIONS = 64
"""LLVM's limit is about 300 instructions; an operation on a vector with its loads and stores takes four to six."""


@dataclass(frozen=True)
class InnermostBody:
    """The body at each point. All arrays but ``tile`` have the shape [points].

    Attributes:
        tile: how far each iterator advances inside the body; shape [points, iterators].
        vector: number of elements that are written side by side.
        operations: number of vector operations in the body.
        results: number of output elements that are written.
        accumulators: number of registers that hold them.
        reduced: number of reduction steps inside the body.
        reuse: number of reduction steps before results are stored to memory.
    """

    tile: FloatArray
    vector: FloatArray
    operations: FloatArray
    results: FloatArray
    accumulators: FloatArray
    reduced: FloatArray
    reuse: FloatArray


def innermost_body(
    nest: LoopNest, extents: FloatArray, steps: FloatArray, lanes: int, filled_at: FloatArray
) -> InnermostBody:
    """Build the body from the innermost loop outwards.

    Args:
        nest: the loops.
        extents: of the loops, from the outermost inwards; shape [points, loops].
        steps: how many may be unrolled, from ``unroll_steps``; shape [points].
        lanes: results in one vector register.
        filled_at: the innermost loop in which another block fills a copy that this one reads; negative without one;
            shape [points]. LLVM stores and loads the results around it.
    """
    growing = _GrowingBody(nest, extents, lanes)
    innermost = len(nest.parts) - 1
    for place in range(innermost - nest.ends_in_results, -1, -1):
        growing.reach(nest.parts[place].iterator, extents[:, place], steps, filled_at >= place)
    return growing.body()


class _GrowingBody:
    """The body so far. It begins as the innermost loop if TVM can vectorise that, and otherwise as one step."""

    def __init__(self, nest: LoopNest, extents: FloatArray, lanes: int) -> None:
        self._spatial = np.array(nest.pattern.spatial)
        self._last = nest.parts[-1].iterator
        self._lanes = lanes
        ones = np.ones(len(extents))
        strides = nest.pattern.writes[0].strides
        self._is_side_by_side = nest.ends_in_results and bool(strides) and strides[-1][self._last] == 1
        self._innermost = extents[:, -1] if nest.ends_in_results else ones
        self._tile = np.ones((len(extents), len(self._spatial)))
        self._tile[:, self._last] = self._innermost
        self._elements, self._scalar_steps, self._reuse = self._innermost, ones, ones
        self._is_growing = self._is_in_registers = ones > 0

    def reach(self, iterator: int, extent: FloatArray, steps: FloatArray, fills: npt.NDArray[np.bool_]) -> None:
        """Process the next loop outwards: unroll it, vectorise it, or end the body.

        ``fills`` says where it contains a block that fills a copy, which ends the stay in registers of a loop.
        """
        row = self._row * extent if iterator == self._last else self._row
        is_short = self._operations(self._elements * extent, row) <= MAX_OPERATIONS
        was_growing = self._is_growing
        self._is_growing = was_growing & (is_short | (self._scalar_steps * extent <= steps) | (extent == 1))
        self._scalar_steps = self._scalar_steps * np.where(self._is_growing, extent, 1.0)
        self._extend(iterator, np.where(self._is_growing, extent, 1.0))
        self._is_in_registers = self._is_in_registers & ~(fills & ~self._is_growing)
        fits = self._is_growing | (extent == 1)
        if self._is_side_by_side and iterator == self._last:
            is_vector = was_growing & ~self._is_growing & (self._row == 1)
            self._extend(iterator, np.where(is_vector, np.minimum(extent, self._lanes), 1.0))
            fits |= is_vector & (extent <= self._lanes)
        elif not self._spatial[iterator]:
            self._reuse = self._reuse * np.where(self._is_in_registers, extent, 1.0)
            fits |= True
        self._is_in_registers = self._is_in_registers & fits

    def body(self) -> InnermostBody:
        """The finished body."""
        results = self._tile[:, self._spatial].prod(axis=1)
        vector = self._vector()
        return InnermostBody(
            tile=self._tile,
            vector=vector,
            operations=self._operations(self._elements, self._row),
            results=results,
            accumulators=results / vector * np.ceil(vector / self._lanes),
            reduced=self._elements / results,
            reuse=self._reuse,
        )

    @property
    def _row(self) -> FloatArray:
        """How far the innermost loop's iterator advances."""
        return self._tile[:, self._last]

    def _extend(self, iterator: int, factor: FloatArray) -> None:
        self._tile[:, iterator] *= factor
        self._elements = self._elements * factor

    def _operations(self, elements: FloatArray, row: FloatArray) -> FloatArray:
        return elements / row * np.ceil(row / self._lanes) if self._is_side_by_side else elements

    def _vector(self) -> FloatArray:
        """Keep a vector that TVM made, however narrow; if there is none, LLVM vectorises all neighbours."""
        if not self._is_side_by_side:
            return np.ones(len(self._tile))
        return np.where(self._innermost > 1, self._innermost, self._row)
