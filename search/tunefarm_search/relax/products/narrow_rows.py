"""Rows of a quantized table, such as the embeddings of tokens: the table stays in integers."""

from typing import Any

import numpy as np
from tvm import relax

from tunefarm_search.relax.constants import Array, constant_of
from tunefarm_search.relax.products.narrow_weights import NarrowWeights


def narrow_rows(builder: Any, table: NarrowWeights, indices: Any, dtype: str) -> Any:
    """The rows of a table at ``indices``, of the type ``dtype``.

    Args:
        builder: emits the operators.
        table: quantized, [elements of a row, rows], with groups of successive elements.
        indices: of rows, any shape.
        dtype: of the result.
    """

    def taken(array: Array) -> Any:
        return builder.emit(relax.op.take(constant_of(array), indices, axis=0))

    groups, rows = np.asarray(table.scales).shape
    codes = np.ascontiguousarray(table.codes.T).reshape(rows, groups, -1)
    half = codes.shape[2] // 2
    if table.bits == 4:
        halves = taken(codes[..., :half] | codes[..., half:] << 4)
        low = builder.emit(relax.op.bitwise_and(halves, constant_of(np.array(15, np.uint8))))
        high = builder.emit(relax.op.right_shift(halves, constant_of(np.array(4, np.uint8))))
        integers = builder.emit(relax.op.concat([low, high], axis=-1))
    else:
        integers = taken(codes)
    numbers = builder.emit(relax.op.astype(integers, "float32"))
    if isinstance(table.zero_points, np.ndarray):
        numbers = builder.emit(relax.op.subtract(numbers, taken(_of_groups(table.zero_points))))
    elif table.zero_points:
        numbers = builder.emit(relax.op.subtract(numbers, constant_of(np.array(table.zero_points, np.float32))))
    scaled = builder.emit(relax.op.multiply(numbers, taken(_of_groups(np.asarray(table.scales)))))
    found = builder.emit(relax.op.reshape(scaled, (*indices.ty.shape.values, table.codes.shape[0])))
    return found if dtype == "float32" else relax.op.astype(found, dtype)


def _of_groups(values: Array) -> Array:
    """Numbers of shape (groups, rows) as (rows, groups, 1)."""
    return np.ascontiguousarray(values.T)[..., None]
