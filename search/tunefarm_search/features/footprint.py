"""The footprint of a tile in a buffer: elements, cache lines, vectors."""

import numpy as np

from tunefarm_search.features.loop_nest import FloatArray
from tunefarm_search.space.access_pattern import BufferAccess

LINE_BYTES = 64


def elements(access: BufferAccess, tile: FloatArray) -> FloatArray:
    """Number of elements that a tile of shape [points, iterators] accesses, without those that a stride skips."""
    return _rows(access, tile) * _touched(access.extents[-1:], access.strides[-1:], tile)


def lines(access: BufferAccess, tile: FloatArray) -> FloatArray:
    """Number of cache lines that contain those elements."""
    if not access.extents:
        return np.ones(len(tile))
    whole = np.ceil(reach(access, len(access.extents) - 1, tile) * access.element_bytes / LINE_BYTES)
    return _rows(access, tile) * np.minimum(whole, _touched(access.extents[-1:], access.strides[-1:], tile))


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
