"""Cycles of a block without a reduction, which only moves data: loads, stores and cache lines."""

import math

import numpy as np

from tunefarm_search.features.footprint import LINE_BYTES
from tunefarm_search.features.loop_nest import FloatArray, LoopNest
from tunefarm_search.features.machine import CycleCosts
from tunefarm_search.space.access_pattern import BufferAccess


def movement(nest: LoopNest, extents: FloatArray, lanes: int, costs: CycleCosts) -> dict[str, FloatArray]:
    """Estimate a nest of spatial loops at points of one sketch.

    Args:
        nest: the loops; the innermost is vectorised.
        extents: of the loops, from the outermost inwards; shape [points, loops].
        lanes: elements of the output in one vector register.
        costs: what a core takes for each step.

    Returns:
        Arrays of shape [points] by name; ``cycles`` is the estimate for one core without cache misses beyond those of
        rows that share a set.
    """
    innermost = nest.parts[-1].iterator
    vector = extents[:, -1]
    per_row = np.ceil(vector / lanes)
    rows = nest.pattern.iterations / vector
    loads, gathered, refetched = np.zeros(len(vector)), np.zeros(len(vector)), np.zeros(len(vector))
    for read in nest.pattern.reads:
        crossed = _crossed_dimensions(read, innermost)
        if not crossed:
            loads += rows * (per_row if read.moves(innermost) else 1.0)
            continue
        side_by_side = _innermost_along(nest, extents, read)
        used = np.ceil(side_by_side * read.element_bytes / LINE_BYTES)
        gathered += rows * vector
        if read.name in nest.copied:
            loads += 2 * rows * vector / side_by_side * np.ceil(side_by_side / lanes)
        if _shares_a_set(read, crossed, costs):
            once_a_tile = rows * vector / side_by_side * used
            each_time = rows * vector
            thrashes = (vector > costs.ways) & (read.name not in nest.copied)
            refetched += np.where(thrashes, each_time, once_a_tile)
    stores = rows * per_row
    cycles = stores + loads / costs.loads_per_cycle + costs.gathered * gathered + costs.refetched_line * refetched
    return {
        "vector": vector,
        "lane_use": vector / (per_row * lanes),
        "loads": loads,
        "gathered": gathered,
        "refetched": refetched,
        "cycles": cycles,
    }


def _crossed_dimensions(read: BufferAccess, iterator: int) -> list[int]:
    """The dimensions, except the last, along which neighbouring results read their elements."""
    return [dimension for dimension, steps in enumerate(read.strides[:-1]) if steps[iterator] > 0]


def _innermost_along(nest: LoopNest, extents: FloatArray, read: BufferAccess) -> FloatArray:
    """Number of neighbouring elements of a row that the loops of the innermost tile read; shape [points]."""
    found = np.ones(len(extents))
    reached: set[int] = set()
    for place in range(len(nest.parts) - 1, -1, -1):
        iterator = nest.parts[place].iterator
        if iterator in reached:
            break
        reached.add(iterator)
        if read.strides[-1][iterator] == 1.0:
            found = found * extents[:, place]
    return found


def _shares_a_set(read: BufferAccess, crossed: list[int], costs: CycleCosts) -> bool:
    row_bytes = min(math.prod(read.extents[dimension + 1 :]) for dimension in crossed) * read.element_bytes
    return row_bytes % costs.aliasing_bytes == 0
