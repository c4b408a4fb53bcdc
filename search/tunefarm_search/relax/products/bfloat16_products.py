"""Products of bfloat16 with constant matrices, for processors whose matrix unit multiplies them.

The unit adds products in float32, as the float operators of such models do.
"""

from typing import Any, Final

import numpy as np
from tvm import te, tirx

from tunefarm_search.relax.constants import Array
from tunefarm_search.tvm.tensor_intrinsics.dot_products import SUMS
from tunefarm_search.tvm.tensor_intrinsics.matrix_tiles import MIN_PRODUCTS, MIN_ROWS, TILE_BYTES, TILE_ROWS, WORD_BYTES
from tunefarm_search.tvm.tensor_intrinsics.tile_elements import BFLOAT16

_STEP: Final = TILE_BYTES // WORD_BYTES * BFLOAT16.products
"""Products that one instruction adds to each sum."""
_GOOD_ROWS: Final = range(8, TILE_ROWS + 1)


def suits_matrix_unit(matrix: Array, shape: tuple[int, ...]) -> bool:
    """Whether the unit computes a product with a result of this shape sooner than vectors of floats."""
    inner, width = matrix.shape
    fits = not inner % _STEP and not width % SUMS
    return fits and len(shape) > 1 and shape[-2] >= MIN_ROWS and inner >= MIN_PRODUCTS


def packed_matrix(matrix: Array) -> Array:
    """A matrix of shape (k, n) as the unit reads it: [n / 16, 1, k / 2, 16, 2]."""
    inner, width = matrix.shape
    pairs = matrix.reshape(inner // BFLOAT16.products, BFLOAT16.products, width // SUMS, SUMS)
    return np.ascontiguousarray(pairs.transpose(2, 0, 3, 1))[:, None]


def rows_on_matrix_unit(rows: int) -> int:
    """How many rows the unit computes for ``rows`` of them: as many where tiles fill them."""
    if rows <= TILE_ROWS or any(rows % each == 0 for each in _GOOD_ROWS):
        return rows
    return -(-rows // TILE_ROWS) * TILE_ROWS


def with_more_rows(rows: int, left: te.Tensor) -> te.Tensor:
    """A copy of ``left`` with so many rows. It is a function of its own: buffers within one are made float32."""
    *front, given, inner = map(int, left.shape)

    def element(*at: Any) -> Any:
        return tirx.if_then_else(at[-2] < given, left(*at), tirx.const(0, BFLOAT16.activation))

    return te.compute((*front, rows, inner), element, name="more_rows")


def product_on_matrix_unit(rows: int, left: te.Tensor, packed: te.Tensor) -> te.Tensor:
    """So many ``rows`` of the product, float32, [..., rows, n]."""
    *front, computed, _ = map(int, left.shape)
    part = te.reduce_axis((0, int(packed.shape[1])), "part")
    block, depth = te.reduce_axis((0, int(packed.shape[2])), "block"), te.reduce_axis((0, BFLOAT16.products), "depth")

    def sums(*at: Any) -> Any:
        one = left(*at[:-1], block * BFLOAT16.products + depth)
        other = packed(at[-1] // SUMS, part, block, at[-1] % SUMS, depth)
        return te.sum(one.astype("float32") * other.astype("float32"), axis=[part, block, depth])

    width = int(packed.shape[0]) * SUMS
    found = te.compute((*front, computed, width), sums, name="dot_products")
    return found if computed == rows else te.compute((*front, rows, width), found, name="rows")
