"""Attention and MultiHeadAttention of com.microsoft, whose heads have keys of their own."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from tvm import relax

from tunefarm.frontend.onnx.operators.constants import cast, constant

_PADDING: Final = -10000.0
"""What is added to scores of padding where a node does not say."""
_RANK_OF_HEADS: Final = 4


@dataclass(frozen=True)
class _Heads:
    """Operands of attention.

    Attributes:
        queries: of shape (batch, heads, tokens, elements).
        keys: of shape (batch, heads, all tokens, elements), with those of earlier tokens.
        values: of shape (batch, heads, all tokens, elements of values).
    """

    queries: Any
    keys: Any
    values: Any


def multi_head_attention(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """MultiHeadAttention: output, and keys and values of shape (batch, heads, tokens, elements)."""
    del scope
    query, key, value, bias, padding, added, *past = [*inputs, *[None] * 10][:10]
    if past[2] is not None or past[3] is not None:
        raise ValueError("buffers that past and present share have no conversion")
    count = int(attributes["num_heads"])
    parts = _unpacked(builder, (query, key, value))
    if bias is not None:
        parts = _with_biases(builder, parts, bias)
    queries, keys, values = (in_heads(builder, each, count) for each in parts)
    if past[0] is not None:
        keys, values = (
            builder.emit(relax.op.concat([earlier, new], axis=2))
            for earlier, new in ((past[0], keys), (past[1], values))
        )
    heads = _Heads(queries, keys, values)
    return relax.Tuple([_attended(builder, heads, attributes, padding, added), keys, values])


def attention(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Attention, which multiplies the weights of queries, keys and values first: output, and keys with values."""
    del scope
    data, weights, bias, padding, past, added, length = [*inputs, *[None] * 7][:7]
    if length is not None:
        raise ValueError("a buffer that past and present share has no conversion")
    product = builder.emit(relax.op.matmul(data, weights))
    return attention_of_product(builder, (product, bias, padding, past, added), attributes)


def attention_of_product(builder: Any, given: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Attention of products that stand side by side.

    Args:
        builder: of the Relax function.
        given: products of shape (batch, tokens, columns), and, or None, their bias, the padding, keys with values of
            earlier tokens of shape (2, batch, heads, tokens, elements), and what is added to scores.
        attributes: those of the node.
    """
    product, bias, padding, past, added = given
    if attributes.get("do_rotary", 0):
        raise ValueError("rotary embeddings without tables have no conversion")
    count, width = int(attributes["num_heads"]), int(product.ty.shape[2])
    if bias is not None:
        product = builder.emit(relax.op.add(product, bias))
    sizes = attributes.get("qkv_hidden_sizes") or (width // 3,) * 3
    bounds = [int(sizes[0]), int(sizes[0] + sizes[1])]
    parts = builder.emit(relax.op.split(product, bounds, axis=2))
    queries, keys, values = (
        in_heads(builder, builder.emit(relax.TupleGetItem(parts, index)), count) for index in range(3)
    )
    if past is not None:
        keys, values = (
            builder.emit(relax.op.concat([_row(builder, past, index), new], axis=2))
            for index, new in enumerate((keys, values))
        )
    result = _attended(builder, _Heads(queries, keys, values), attributes, padding, added)
    if list(map(int, keys.ty.shape)) != list(map(int, values.ty.shape)):
        return relax.Tuple([result])
    return relax.Tuple([result, builder.emit(relax.op.stack([keys, values], axis=0))])


def _unpacked(builder: Any, given: Sequence[Any]) -> list[Any]:
    """Queries, keys and values, each of shape (batch, tokens, columns) or already in heads."""
    query, key, value = given
    if key is None:
        return _apart(builder, query, 3)
    if value is None:
        return [query, *_apart(builder, key, 2)]
    return [query, key, value]


def _apart(builder: Any, packed: Any, parts: int) -> list[Any]:
    """The parts of a tensor of shape (batch, tokens, heads, parts, elements)."""
    batch, tokens, heads, found, elements = (int(extent) for extent in packed.ty.shape)
    if found != parts:
        raise ValueError(f"a tensor of {found} parts has no conversion")
    slices = [builder.emit(relax.op.strided_slice(packed, [3], [at], [at + 1])) for at in range(parts)]
    return [builder.emit(relax.op.reshape(each, (batch, tokens, heads * elements))) for each in slices]


def _with_biases(builder: Any, parts: Sequence[Any], bias: Any) -> list[Any]:
    """Queries, keys and values to which their parts of a bias are added."""
    result, begin = [], 0
    for each in parts:
        if len(each.ty.shape) == _RANK_OF_HEADS:
            raise ValueError("keys in heads with a bias have no conversion")
        end = begin + int(each.ty.shape[2])
        own = builder.emit(relax.op.strided_slice(bias, [0], [begin], [end]))
        result.append(builder.emit(relax.op.add(each, own)))
        begin = end
    return result


def in_heads(builder: Any, part: Any, count: int) -> Any:
    """A tensor of shape (batch, tokens, columns), or already in heads, as (batch, heads, tokens, elements)."""
    if len(part.ty.shape) == _RANK_OF_HEADS:
        return part
    batch, tokens, width = (int(extent) for extent in part.ty.shape)
    apart = builder.emit(relax.op.reshape(part, (batch, tokens, count, width // count)))
    return builder.emit(relax.op.permute_dims(apart, [0, 2, 1, 3]))


def _attended(builder: Any, heads: _Heads, attributes: Mapping[str, Any], padding: Any, added: Any) -> Any:
    """The output, of shape (batch, tokens, columns)."""
    batch, count, tokens, elements = (int(extent) for extent in heads.queries.ty.shape)
    dtype, total = str(heads.queries.ty.dtype), int(heads.keys.ty.shape[2])
    scale = float(attributes.get("scale", 0.0)) or float(elements) ** -0.5
    scores = scaled_product(builder, heads.queries, heads.keys, scale)
    masks = [] if added is None else [added]
    if attributes.get("unidirectional", 0):
        later = np.arange(total) > np.arange(total - tokens, total)[:, None]
        masks.append(constant(np.where(later, np.finfo(dtype).min, 0).astype(dtype)[None, None]))
    if padding is not None:
        number = float(attributes.get("mask_filter_value", _PADDING))
        masks.append(_of_padding(builder, padding, (batch, tokens, total), relax.const(number, dtype)))
    if masks:  # one mask is added to the scores, which attention as one function reads
        mask = functools.reduce(lambda one, other: builder.emit(relax.op.add(one, other)), masks)
        scores = builder.emit(relax.op.add(scores, mask))
    powers = builder.emit(relax.op.nn.softmax(scores, axis=-1))
    sums = builder.emit(relax.op.matmul(powers, heads.values))
    return joined_heads(builder, sums, (batch, count, tokens))


def scaled_product(builder: Any, rows: Any, keys: Any, scale: float) -> Any:
    """Products of rows and keys of shape (batch, heads, rows, keys), times a factor.

    Those of halves are scaled before they are rounded: they may be larger than the largest half.
    """
    dtype = str(rows.ty.dtype)
    wide = "float32" if dtype in {"float16", "bfloat16"} else dtype
    columns = builder.emit(relax.op.permute_dims(keys, [0, 1, 3, 2]))
    product = builder.emit(relax.op.matmul(rows, columns, out_dtype=None if wide == dtype else wide))
    return cast(builder, builder.emit(relax.op.multiply(product, relax.const(scale, wide))), dtype)


def _of_padding(builder: Any, padding: Any, extents: tuple[int, int, int], hidden: Any) -> Any:
    """What is added to scores for padding: that of keys, or of keys for each token, or their first and last."""
    batch, tokens, total = extents
    shape = tuple(int(extent) for extent in padding.ty.shape)
    zero = relax.const(0, str(hidden.ty.dtype))
    if shape in {(batch,), (2 * batch,)}:
        keys = constant(np.arange(total, dtype=str(padding.ty.dtype)).reshape(1, 1, 1, total))
        bounds = builder.emit(relax.op.reshape(padding, (shape[0] // batch, batch, 1, 1, 1)))
        visible = builder.emit(relax.op.less(keys, _row(builder, bounds, 0)))
        if shape != (batch,):
            begun = builder.emit(relax.op.greater_equal(keys, _row(builder, bounds, 1)))
            visible = builder.emit(relax.op.logical_and(visible, begun))
    elif shape in {(batch, total), (batch, tokens, total)}:
        rows = 1 if shape == (batch, total) else tokens
        mask = builder.emit(relax.op.reshape(padding, (batch, 1, rows, total)))
        visible = builder.emit(relax.op.greater(mask, relax.const(0, str(padding.ty.dtype))))
    else:
        raise ValueError(f"a mask of shape {list(shape)} has no conversion")
    return builder.emit(relax.op.where(visible, zero, hidden))


def _row(builder: Any, tensor: Any, index: int) -> Any:
    """One part of a tensor along its first axis."""
    one = builder.emit(relax.op.strided_slice(tensor, [0], [index], [index + 1]))
    return builder.emit(relax.op.squeeze(one, [0]))


def joined_heads(builder: Any, sums: Any, extents: tuple[int, int, int]) -> Any:
    """Sums of values, of any shape that ends in tokens and elements, as (batch, tokens, heads * elements)."""
    batch, heads, tokens = extents
    elements = int(sums.ty.shape[3])
    apart = builder.emit(relax.op.reshape(sums, (batch, heads, tokens, elements)))
    moved = builder.emit(relax.op.permute_dims(apart, [0, 2, 1, 3]))
    return builder.emit(relax.op.reshape(moved, (batch, tokens, heads * elements)))
