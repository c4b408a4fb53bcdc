"""What importers of several frameworks compute along one axis."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax, te, tirx


def pieces(value: Any, count: int, axis: int, emit: Callable[[Any], Any]) -> list[Any]:
    """A value cut into ``count`` equal pieces."""
    if count == 1:
        return [value]
    whole = emit(relax.op.split(value, count, axis=axis))
    return [emit(relax.TupleGetItem(whole, each)) for each in range(count)]


def joined(parts: Sequence[Any], axis: int, emit: Callable[[Any], Any]) -> Any:
    """Values one after another along an axis; a single one as it is."""
    return parts[0] if len(parts) == 1 else emit(relax.op.concat(list(parts), axis))


def scattered(data: Any, positions: Any, values: Any, axis: int, reduction: str, emit: Callable[[Any], Any]) -> Any:
    """Values combined with elements at positions of one axis, as torch and ONNX have it.

    Positions and values may have fewer elements than the data along each axis, and positions fewer than the values.
    TVM reads them wrongly then, so the rest of the data is cut off before, and put back afterwards.
    """
    sizes, counts, given = (extents(each) for each in (data, positions, values))
    if counts != given:
        axes = list(range(len(counts)))
        values = emit(relax.op.strided_slice(values, axes, [0] * len(axes), counts))
    shorter = [each for each in range(len(counts)) if each != axis % len(counts) and counts[each] < sizes[each]]
    parts, rests = data, []
    for each in shorter:
        rests.append(emit(relax.op.strided_slice(parts, [each], [counts[each]], [sizes[each]])))
        parts = emit(relax.op.strided_slice(parts, [each], [0], [counts[each]]))
    result = emit(relax.op.scatter_elements(parts, positions, values, axis, reduction))
    for each, rest in zip(reversed(shorter), reversed(rests), strict=True):
        result = emit(relax.op.concat([result, rest], each))
    return result


def with_rows(data: Any, positions: Any, rows: Any, axis: int, builder: Any) -> Any:
    """``data`` with ``rows`` at positions of one axis, which are within bounds; of equal ones, the last.

    Each element is chosen, so that it can be fused, scheduled and updated in place as a scatter cannot.

    Args:
        data: any tensor.
        positions: integers of shape (n,).
        rows: as ``data``, but with n elements along the axis.
        axis: the one of the positions.
        builder: TVM's ``BlockBuilder``.
    """
    emit, dtype = builder.emit, str(positions.ty.dtype)
    places = relax.const(np.arange(extents(data)[axis]).reshape(-1, 1), dtype)
    numbers = relax.const(np.arange(extents(positions)[0]).reshape(1, -1), "int32")
    is_at = emit(relax.op.equal(places, emit(relax.op.expand_dims(positions, 0))))
    number = emit(relax.op.max(emit(relax.op.where(is_at, numbers, relax.const(-1, "int32"))), 1))

    def chosen(data: te.Tensor, rows: te.Tensor, number: te.Tensor) -> te.Tensor:
        def element(*index: Any) -> Any:
            of_row = number[index[axis]]
            row = rows[(*index[:axis], tirx.max(of_row, 0), *index[axis + 1 :])]
            return tirx.if_then_else(of_row >= 0, row, data[index])

        return te.compute(data.shape, element, name="with_rows")

    return builder.emit_te(chosen, data, rows, number, primfunc_name_hint="with_rows")


def multiplied(data: Any, matrix: npt.NDArray[Any], axis: int, emit: Callable[[Any], Any]) -> Any:
    """``data``, each line of which along an axis is multiplied with a matrix of shape (result, input)."""
    rank, dtype = data.ty.ndim, str(data.ty.dtype)
    if axis == rank - 2:
        return emit(relax.op.matmul(relax.const(np.ascontiguousarray(matrix), dtype), data))
    transposed = relax.const(np.ascontiguousarray(matrix.T), dtype)
    if axis == rank - 1:
        return emit(relax.op.matmul(data, transposed))
    last = emit(relax.op.permute_dims(data, [*(each for each in range(rank) if each != axis), axis]))
    product = emit(relax.op.matmul(last, transposed))
    return emit(relax.op.permute_dims(product, [*range(axis), rank - 1, *range(axis, rank - 1)]))


def extents(tensor: Any) -> list[int]:
    """The constant shape of a Relax expression."""
    return [int(extent) for extent in tensor.ty.shape]
