"""The footprint of a tile in a buffer: elements, cache lines, vectors."""

import math
from dataclasses import dataclass

import numpy as np

from tunefarm_search.features.loop_nest import FloatArray
from tunefarm_search.space.access_pattern import BufferAccess

LINE_BYTES = 64


def elements(access: BufferAccess, tile: FloatArray) -> FloatArray:
    """Number of elements that a tile of shape [points, iterators] accesses, without those that a stride skips."""
    return _rows(access, tile) * _touched(access.extents[-1:], access.strides[-1:], tile)


@dataclass(frozen=True)
class Runs:
    """The contiguous runs of a tile in a buffer: rows, or several dimensions where the tile covers the inner ones.

    Attributes:
        lines_of_each: lines of one run; shape [points].
        rows: number of runs along each dimension but the last one; arrays of shape [points].
        stride_bytes: distance of neighbouring rows of each of these dimensions.
    """

    lines_of_each: FloatArray
    rows: tuple[FloatArray, ...]
    stride_bytes: tuple[int, ...]

    def lines(self) -> FloatArray:
        """Number of cache lines of all runs."""
        return math.prod(self.rows, start=self.lines_of_each)

    def lines_per_set(self, alias_bytes: int) -> FloatArray:
        """Number of those lines that compete for each set of a cache that they occupy.

        ``alias_bytes`` is the distance at which addresses share a set: the size of the cache divided by its
        associativity. Rows at a distance of many such sizes occupy few sets, and evict each other long before the
        cache is full.
        """
        places = np.ones(len(self.lines_of_each))
        for rows, stride_bytes in zip(self.rows, self.stride_bytes, strict=True):
            places *= np.minimum(rows, alias_bytes // math.gcd(stride_bytes, alias_bytes))
        return np.asarray(self.lines() / np.minimum(places * self.lines_of_each, alias_bytes / LINE_BYTES))


def contiguous_runs(access: BufferAccess, tile: FloatArray) -> Runs:
    """The runs of a tile of shape [points, iterators]."""
    length, touched, is_whole = np.ones(len(tile)), np.ones(len(tile)), np.ones(len(tile), bool)
    inner = 1
    rows, stride_bytes = [], []
    for dimension in range(len(access.extents) - 1, -1, -1):
        here = _touched(access.extents[dimension : dimension + 1], access.strides[dimension : dimension + 1], tile)
        reached = reach(access, dimension, tile)
        length = np.where(is_whole, reached * inner, length)
        touched = np.where(is_whole, touched * here, touched)
        if dimension < len(access.extents) - 1:
            rows.append(np.where(is_whole, 1.0, here))
            stride_bytes.append(inner * access.element_bytes)
        is_whole = is_whole & (reached == access.extents[dimension])
        inner *= access.extents[dimension]
    lines_of_each = np.minimum(np.ceil(length * access.element_bytes / LINE_BYTES), touched)
    return Runs(lines_of_each, tuple(rows), tuple(stride_bytes))


def vectors(access: BufferAccess, tile: FloatArray, lanes: int) -> FloatArray:
    """Number of vectors that cover the bounding box of those elements, row by row."""
    count = np.ones(len(tile))
    for dimension in range(len(access.extents)):
        length = reach(access, dimension, tile)
        count *= np.ceil(length / lanes) if dimension == len(access.extents) - 1 else length
    return count


def reach(access: BufferAccess, dimension: int, tile: FloatArray) -> FloatArray:
    """Distance from the first to the last index of one dimension, inclusive."""
    length = np.ones(len(tile))
    for iterator, step in enumerate(access.strides[dimension]):
        if step > 0:
            length += step * (tile[:, iterator] - 1)
    return np.minimum(length, access.extents[dimension])


def _rows(access: BufferAccess, tile: FloatArray) -> FloatArray:
    return _touched(access.extents[:-1], access.strides[:-1], tile)


def _touched(extents: tuple[int, ...], strides: tuple[tuple[float, ...], ...], tile: FloatArray) -> FloatArray:
    count = np.ones(len(tile))
    for extent, steps in zip(extents, strides, strict=True):
        length, moves = np.ones(len(tile)), np.ones(len(tile))
        for iterator, step in enumerate(steps):
            if step > 0:
                length += step * (tile[:, iterator] - 1)
                moves *= tile[:, iterator]
        count *= np.minimum(np.minimum(length, moves), extent)
    return count
