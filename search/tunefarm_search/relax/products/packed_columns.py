"""Constant matrices in the order in which products read them: tiles of a few columns, one after the other.

A tile of columns of the matrix itself would read a few bytes of each row, from a page of its own.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from tvm import te, tirx

from tunefarm_search.relax.constants import Array, array_of, constant_of, is_constant, numpy_dtype
from tunefarm_search.relax.expressions import extents_of

_PACKED_BYTES: Final = 64
"""Of one row of a tile: a cache line, and the widest vector. With more, products of one row were slower."""
_FLOATS: Final = frozenset({"float32", "float64"})
_MAX_MORE: Final = 1.15
"""Times as many columns, where zeros fill the last tile."""


def packed_columns(matrix: Any) -> int | None:
    """How many columns a tile of a Relax expression has.

    None if it is no constant matrix of floats, or if tiles would hold too many zeros.
    """
    shape, dtype = extents_of(matrix), str(matrix.ty.dtype)
    if not is_constant(matrix) or shape is None or len(shape) != 2 or dtype not in _FLOATS:
        return None
    columns = _PACKED_BYTES // numpy_dtype(dtype).itemsize
    return columns if fills_tiles(shape[1], columns) else None


def fills_tiles(width: int, columns: int) -> bool:
    """Whether tiles of so many columns hold few zeros behind a matrix of so many."""
    return -(-width // columns) * columns <= _MAX_MORE * width


def with_packed_columns(matrix: Any, columns: int) -> Any:
    """A constant of shape (k, n) as one of (ceil(n / columns), k, columns), with zeros behind the last column."""
    return constant_of(in_tiles(array_of(matrix), columns))


def in_tiles(array: Array, columns: int) -> Array:
    """An array of shape (..., n) as one of (ceil(n / columns), ..., columns), with zeros behind the last column."""
    missing = -array.shape[-1] % columns
    padded = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)]) if missing else array
    return np.moveaxis(padded.reshape(*array.shape[:-1], -1, columns), -2, 0)


def without_tiles(tiled: te.Tensor, result: Sequence[int]) -> te.Tensor:
    """Results whose last two axes are tiles and the columns of each, in the shape ``result``."""
    columns = int(tiled.shape[-1])

    def element(*indices: Any) -> Any:
        *first, column = indices
        return tiled(*first, tirx.floordiv(column, columns), tirx.floormod(column, columns))

    return te.compute(result, element, name="product")
