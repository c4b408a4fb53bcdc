"""How TVM's pass ``LegalizeOps`` turns products of matrices into TIR functions for processors."""

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import te

from tunefarm_search.relax.expressions import MATMUL, extents_of
from tunefarm_search.relax.products.packed_columns import packed_columns, with_packed_columns
from tunefarm_search.relax.products.padded_rows import padded_rows


def legalize_product(builder: Any, call: Any) -> Any:
    """A product as a call of a TIR function."""
    left, right = call.args
    shapes, result = (extents_of(left), extents_of(right)), extents_of(call)
    default: Callable[[Any, Any], Any] = tvm.ir.Op.get(MATMUL).get_attr("FLegalize")
    if result is None or any(shape is None or len(shape) == 0 for shape in shapes):
        return default(builder, call)
    columns = packed_columns(right)
    has_rows_to_pad = min(map(len, filter(None, shapes))) >= 2 and padded_rows(result[-2]) != result[-2]
    if columns is None and not has_rows_to_pad:
        return default(builder, call)
    if columns is not None:
        right = with_packed_columns(right, columns)
    dtype = str(call.ty.dtype)
    return builder.call_te(_product, left, right, result, dtype, columns, primfunc_name_hint="matmul")


def _product(left: te.Tensor, right: te.Tensor, result: Sequence[int], dtype: str, columns: int | None) -> te.Tensor:
    """The product of shape ``result``; ``right`` has tiles of so many ``columns``, or its own shape for None."""
    sums = _padded_sums(left, right, result, dtype, columns)

    def element(*indices: Any) -> Any:
        if columns is None:
            return sums(*indices)
        *first, column = indices
        return sums(*first, tvm.tirx.floordiv(column, columns), tvm.tirx.floormod(column, columns))

    return te.compute(result, element, name="product")


def product_of_tiles(left: te.Tensor, right: te.Tensor, result: Sequence[int], dtype: str) -> te.Tensor:
    """The product with packed columns, whose last axis is split into those of ``right``: tiles, and columns of each."""
    sums = _padded_sums(left, right, result, dtype, int(right.shape[-1]))
    tiles = (*result[:-1], *map(int, right.shape[::2]))
    return sums if tuple(map(int, sums.shape)) == tiles else te.compute(tiles, sums, name="product")


def _padded_sums(
    left: te.Tensor, right: te.Tensor, result: Sequence[int], dtype: str, columns: int | None
) -> te.Tensor:
    """The sums of a product, for as many rows as ``padded_rows`` says, and with tiles as an axis if it has such."""
    *outer, width = result
    rows = int(left.shape[-2]) if len(left.shape) > 1 else 1
    padded = padded_rows(rows)
    computed = outer if padded == rows else [*outer[:-1], padded]
    inner = te.reduce_axis((0, left.shape[-1]), name="k")

    def sums(*indices: Any) -> Any:
        first = list(indices[: len(outer)])
        last = indices[len(outer) :]
        at = first if padded == rows else [*first[:-1], te.min(first[-1], rows - 1)]
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
