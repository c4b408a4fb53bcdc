"""How TVM's pass ``LegalizeOps`` turns products of matrices into TIR functions for processors."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tvm
from tvm import te

from tunefarm_search.relax.constants import constant_of
from tunefarm_search.relax.expressions import FUSED, MATMUL, extents_of
from tunefarm_search.relax.products.narrow_constants import NarrowConstants
from tunefarm_search.relax.products.narrow_weights import whole_product_of_codes
from tunefarm_search.relax.products.packed_columns import packed_columns, with_packed_columns, without_tiles
from tunefarm_search.relax.products.padded_rows import padded_rows, row_to_read


def legalize_product(has_few_registers: bool, narrow: NarrowConstants, builder: Any, call: Any) -> Any:
    """A product as a call of a TIR function, for a processor with few vector registers or many.

    Matrices of ``narrow`` are read as they were.
    """
    left, right = call.args
    shapes, result = (extents_of(left), extents_of(right)), extents_of(call)
    default: Callable[[Any, Any], Any] = tvm.ir.Op.get(MATMUL).get_attr("FLegalize")
    if result is None or any(shape is None or len(shape) == 0 for shape in shapes):
        return default(builder, call)
    rows = result[-2] if min(map(len, filter(None, shapes))) >= 2 else 1
    padded = padded_rows(rows, has_few_registers=has_few_registers)
    weights = narrow.weights(right, math.prod(result[:-1]))
    if weights is not None:
        product = partial(whole_product_of_codes, padded, weights, result)
        constants = map(constant_of, weights.constants)
        attributes = {"op_pattern": FUSED}
        return builder.call_te(product, left, *constants, primfunc_name_hint="matmul", primfunc_attrs=attributes)
    columns = packed_columns(right)
    if columns is None and padded == rows:
        return default(builder, call)
    if columns is not None:
        right = with_packed_columns(right, columns)
    dtype = str(call.ty.dtype)
    product = partial(_product, padded, columns)
    return builder.call_te(product, left, right, result, dtype, primfunc_name_hint="matmul")


def _product(
    padded: int, columns: int | None, left: te.Tensor, right: te.Tensor, result: Sequence[int], dtype: str
) -> te.Tensor:
    """The product of shape ``result``; ``right`` has tiles of so many ``columns``, or its own shape for None."""
    sums = _padded_sums(padded, columns, left, right, result, dtype)
    return te.compute(result, sums, name="product") if columns is None else without_tiles(sums, result)


def product_of_tiles(padded: int, left: te.Tensor, right: te.Tensor, result: Sequence[int], dtype: str) -> te.Tensor:
    """The product with packed columns, whose last axis is split into those of ``right``: tiles, and columns of each.

    Computes the sums of so many ``padded`` rows.
    """
    sums = _padded_sums(padded, int(right.shape[-1]), left, right, result, dtype)
    tiles = (*result[:-1], *map(int, right.shape[::2]))
    return sums if tuple(map(int, sums.shape)) == tiles else te.compute(tiles, sums, name="product")


def _padded_sums(
    padded: int, columns: int | None, left: te.Tensor, right: te.Tensor, result: Sequence[int], dtype: str
) -> te.Tensor:
    """The sums of a product, for so many ``padded`` rows, and with tiles of ``columns`` as an axis if it has such."""
    *outer, width = result
    rows = int(left.shape[-2]) if len(left.shape) > 1 else 1
    computed = outer if padded == rows else [*outer[:-1], padded]
    inner = te.reduce_axis((0, left.shape[-1]), name="k")

    def sums(*indices: Any) -> Any:
        first = list(indices[: len(outer)])
        last = indices[len(outer) :]
        at = [*first[:-1], *(row_to_read(row, rows, padded) for row in first[-1:])]
        one = left(*_aligned(left.shape[:-1], at), inner)
        if columns is None:
            other = right(*_aligned(right.shape[:-2], first[:-1]), inner, *last)
        else:
            other = right(last[0], inner, last[1])
        return te.sum(one.astype(dtype) * other.astype(dtype), axis=inner)

    tiles = (width,) if columns is None else (right.shape[0], columns)
    return te.compute((*computed, *tiles), sums, name="matmul")


def _aligned(extents: Sequence[Any], indices: Sequence[Any]) -> list[Any]:
    """The indices of axes in those of the result, of which a tensor may lack some or have one element."""
    own = indices[len(indices) - len(extents) :]
    return [0 if int(extent) == 1 else index for extent, index in zip(extents, own, strict=True)]
