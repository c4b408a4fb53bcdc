"""Constant matrices in the order in which products read them: tiles of a few columns, one after the other.

A tile of columns of the matrix itself would read a few bytes of each row, from a page of its own.
"""

from typing import Any, Final

import numpy as np

from tunefarm_search.relax.constants import array_of, constant_of, is_constant, numpy_dtype
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
    return columns if -(-shape[1] // columns) * columns <= _MAX_MORE * shape[1] else None


def with_packed_columns(matrix: Any, columns: int) -> Any:
    """A constant of shape (k, n) as one of (ceil(n / columns), k, columns), with zeros behind the last column."""
    array = array_of(matrix)
    inner, width = array.shape
    tiles = -(-width // columns)
    missing = tiles * columns - width
    padded = np.pad(array, ((0, 0), (0, missing))) if missing else array
    return constant_of(padded.reshape(inner, tiles, columns).transpose(1, 0, 2))
