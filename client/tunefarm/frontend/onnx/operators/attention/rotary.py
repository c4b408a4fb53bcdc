"""Rotary position embeddings of com.microsoft."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import relax

from tunefarm.frontend.expressions.along_axis import joined
from tunefarm.frontend.onnx.operators.constants import constant


def rotary_embedding(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """RotaryEmbedding: the data is (batch, tokens, heads * elements) or (batch, heads, tokens, elements)."""
    del scope
    data, positions, cosines, sines = [*inputs][:4]
    if attributes.get("is_packed_batching", 0):
        raise ValueError("sequences of several lengths in one row have no conversion")
    shape = [int(extent) for extent in data.ty.shape]
    if len(shape) == 3:
        heads, turned = int(attributes.get("num_heads", 0)), 2 * int(cosines.ty.shape[1])
        heads = heads or shape[2] // (int(attributes.get("rotary_embedding_dim", 0)) or turned)
        rows = builder.emit(relax.op.reshape(data, (*shape[:2], heads, shape[2] // heads)))
    else:
        rows = builder.emit(relax.op.permute_dims(data, [0, 2, 1, 3]))
    tokens = int(rows.ty.shape[1])
    if len(positions.ty.shape) == 1:  # that of the first token of each sequence
        dtype = str(positions.ty.dtype)
        first = builder.emit(relax.op.reshape(positions, (1, 1)))
        positions = builder.emit(relax.op.add(first, constant(np.arange(tokens, dtype=dtype)[None])))
    interleaved = bool(attributes.get("interleaved", 0))
    result = turned_by_positions(builder, rows, (cosines, sines), positions, interleaved=interleaved)
    scale = float(attributes.get("scale", 1.0))
    if scale != 1:
        result = builder.emit(relax.op.multiply(result, relax.const(scale, str(data.ty.dtype))))
    return relax.op.reshape(result, shape) if len(shape) == 3 else relax.op.permute_dims(result, [0, 2, 1, 3])


def turned_by_positions(builder: Any, rows: Any, tables: tuple[Any, Any], positions: Any, *, interleaved: bool) -> Any:
    """Turn pairs of elements of each head by angles of their token's position.

    Args:
        builder: of the Relax function.
        rows: of shape (batch, tokens, heads, elements).
        tables: cosines and sines of shape (positions, pairs). Elements after the pairs stay as they are.
        positions: integers of shape (batch, tokens), or (1, tokens) for all of the batch.
        interleaved: whether pairs are neighbors. Else the second element follows after that of all pairs.
    """
    batch, tokens, heads, elements = (int(extent) for extent in rows.ty.shape)
    pairs = int(tables[0].ty.shape[1])
    cosines, sines = (_rows_of(builder, table, positions, pairs) for table in tables)
    turned = rows if elements == 2 * pairs else _part(builder, rows, 0, 2 * pairs)
    shape = (batch, tokens, heads, pairs)
    if interleaved:
        split = builder.emit(relax.op.reshape(turned, (*shape, 2)))
        ones = [builder.emit(relax.op.strided_slice(split, [4], [at], [at + 1])) for at in (0, 1)]
        first, second = (builder.emit(relax.op.reshape(each, shape)) for each in ones)
    else:
        first, second = _part(builder, turned, 0, pairs), _part(builder, turned, pairs, 2 * pairs)
    real = relax.op.subtract(relax.op.multiply(first, cosines), relax.op.multiply(second, sines))
    imaginary = relax.op.add(relax.op.multiply(first, sines), relax.op.multiply(second, cosines))
    parts = [builder.emit(real), builder.emit(imaginary)]
    if interleaved:
        turns = builder.emit(relax.op.concat([relax.op.expand_dims(each, -1) for each in parts], axis=-1))
        parts = [builder.emit(relax.op.reshape(turns, (batch, tokens, heads, 2 * pairs)))]
    if elements > 2 * pairs:
        parts.append(_part(builder, rows, 2 * pairs, elements))
    return joined(parts, -1, builder.emit)


def _part(builder: Any, rows: Any, begin: int, end: int) -> Any:
    return builder.emit(relax.op.strided_slice(rows, [3], [begin], [end]))


def _rows_of(builder: Any, table: Any, positions: Any, pairs: int) -> Any:
    """The rows of a table at positions, the same for all heads."""
    taken = builder.emit(relax.op.take(table, positions, axis=0, mode="clip"))
    return builder.emit(relax.op.reshape(taken, (*(int(extent) for extent in positions.ty.shape), 1, pairs)))
