"""Attention of ONNX, since opset 23, and the update of its caches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tvm
from onnx import helper
from tvm import relax, te

from tunefarm.frontend.expressions.along_axis import extents
from tunefarm.frontend.onnx.operators.attention.grouped_attention import capped_scores, mask_of_groups, scaled_scores
from tunefarm.frontend.onnx.operators.attention.multi_head_attention import in_heads, joined_heads
from tunefarm.frontend.onnx.operators.constants import constant

_RANK_OF_HEADS: Final = 4
_PRODUCT, _CAPPED, _BIASED = range(3)
"""What the fourth result is, by ``qk_matmul_output_mode``; the powers otherwise."""


@dataclass(frozen=True)
class _Rows:
    """The rows of one product: queries of all heads that share keys.

    Attributes:
        batch: the number of sequences.
        heads: of queries.
        of_keys: heads of keys.
        tokens: of a call.
        keys: how many a row is multiplied with.
    """

    batch: int
    heads: int
    of_keys: int
    tokens: int
    keys: int

    @property
    def groups(self) -> int:
        """Heads that share keys."""
        return self.heads // self.of_keys


# 1. Split heads, and write the new keys and values behind those of earlier tokens.
# 2. Heads that share keys are rows of one product. Cap the scores, and hide keys by position, length and mask.
# 3. Rows without any key become zeros.
def standard_attention(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Attention: output, keys and values of shape (batch, heads, tokens, elements), and scores."""
    del scope
    query, key, value, mask, past_key, past_value, lengths = [*inputs, *[None] * 7][:7]
    is_flat = len(query.ty.shape) != _RANK_OF_HEADS
    if is_flat:
        counts = [int(attributes[name]) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
        query, key, value = (in_heads(builder, *each) for each in zip((query, key, value), counts, strict=True))
    if past_key is not None:
        key, value = (builder.emit(relax.op.concat(pair, axis=2)) for pair in ((past_key, key), (past_value, value)))
    (batch, heads, tokens, elements), of_keys, keys = extents(query), extents(key)[1], extents(key)[2]
    rows = _Rows(batch, heads, of_keys, tokens, keys)
    joined = builder.emit(relax.op.reshape(query, (batch, of_keys, rows.groups * tokens, elements)))
    product = scaled_scores(builder, joined, key, attributes)
    capped = capped_scores(builder, product, attributes)
    earlier = _earlier(builder, rows, past_key, lengths)
    biased = _with_mask(builder, capped, mask, rows)
    biased = _visible_only(builder, biased, _visible(builder, rows, attributes, earlier, lengths))
    powers = _powers(builder, biased, attributes)
    sums = builder.emit(relax.op.matmul(powers, value))
    if is_flat:
        output = joined_heads(builder, sums, (batch, heads, tokens))
    else:
        output = builder.emit(relax.op.reshape(sums, (batch, heads, tokens, extents(value)[3])))
    results = {_PRODUCT: product, _CAPPED: capped, _BIASED: biased}
    scores = results.get(int(attributes.get("qk_matmul_output_mode", _PRODUCT)), powers)
    return relax.Tuple([output, key, value, builder.emit(relax.op.reshape(scores, (batch, heads, tokens, keys)))])


def tensor_scatter(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """TensorScatter: a cache with new rows from a place of each sequence on."""
    del scope
    past, update, places = [*inputs, None][:3]
    shape = extents(past)
    axis, is_circular = int(attributes.get("axis", -2)) % len(shape), attributes.get("mode", b"linear") == b"circular"
    count, size = extents(update)[axis], shape[axis]
    if places is None:
        places = constant(np.zeros(shape[0], np.int64))

    def written(past: te.Tensor, update: te.Tensor, places: te.Tensor) -> te.Tensor:
        def element(*index: Any) -> Any:
            number = index[axis].astype("int64") - places[index[0]].astype("int64")
            number = tvm.tirx.floormod(number, size) if is_circular else number
            nearest = tvm.tirx.max(tvm.tirx.min(number, count - 1), 0)
            new = update[(*index[:axis], nearest, *index[axis + 1 :])]
            return tvm.tirx.if_then_else(tvm.tirx.And(number >= 0, number < count), new, past[index])

        return te.compute(past.shape, element, name="written")

    return builder.emit_te(written, past, update, places, primfunc_name_hint="written")


def _earlier(builder: Any, rows: _Rows, past: Any, lengths: Any) -> Any:
    """How many keys come before those of the call, of shape (batch or 1, 1, 1, 1)."""
    if past is not None or lengths is None:
        count = 0 if past is None else extents(past)[2]
        return constant(np.full((1, 1, 1, 1), count, np.int64))
    before = builder.emit(relax.op.subtract(lengths, relax.const(rows.tokens, str(lengths.ty.dtype))))
    return builder.emit(relax.op.reshape(before, (rows.batch, 1, 1, 1)))


def _visible(builder: Any, rows: _Rows, attributes: Mapping[str, Any], earlier: Any, lengths: Any) -> Any:
    """Which keys a row may read by position and length, of shape (batch or 1, 1, rows, keys); None if all."""
    emit, dtype = builder.emit, str(earlier.ty.dtype)
    keys = constant(np.arange(rows.keys, dtype=dtype).reshape(1, 1, 1, -1))
    tokens = constant(np.tile(np.arange(rows.tokens, dtype=dtype), rows.groups).reshape(1, 1, -1, 1))
    places = emit(relax.op.add(earlier, tokens))
    conditions = []
    if attributes.get("is_causal", 0):
        conditions.append(emit(relax.op.less_equal(keys, places)))
    left, right = (int(attributes.get(f"{side}_window_size", -1)) for side in ("left", "right"))
    if left >= 0:
        first = emit(relax.op.subtract(places, relax.const(left, dtype)))
        conditions.append(emit(relax.op.greater_equal(keys, first)))
    if right >= 0:
        last = emit(relax.op.add(places, relax.const(right, dtype)))
        conditions.append(emit(relax.op.less_equal(keys, last)))
    if lengths is not None:
        ends = emit(relax.op.reshape(lengths, (rows.batch, 1, 1, 1)))
        conditions.append(emit(relax.op.less(keys, ends)))
    visible = None
    for each in conditions:
        visible = each if visible is None else emit(relax.op.logical_and(visible, each))
    return visible


def _with_mask(builder: Any, scores: Any, mask: Any, rows: _Rows) -> Any:
    """Scores with what a mask adds, or hides."""
    if mask is None:
        return scores
    shape, is_boolean = extents(mask), str(mask.ty.dtype) == "bool"
    shape = [*[1] * (_RANK_OF_HEADS - len(shape)), *shape]
    emit, missing = builder.emit, rows.keys - shape[3]
    mask = emit(relax.op.reshape(mask, shape))
    if missing:
        rest = np.full((*shape[:3], missing), False if is_boolean else -np.inf, bool if is_boolean else np.float32)
        rest = relax.const(rest, str(mask.ty.dtype))
        mask = emit(relax.op.concat([mask, rest], axis=3))
    mask = mask_of_groups(builder, mask, (rows.of_keys, rows.groups, rows.tokens))
    return _visible_only(builder, scores, mask) if is_boolean else emit(relax.op.add(scores, mask))


def _visible_only(builder: Any, scores: Any, visible: Any) -> Any:
    hidden = relax.const(-np.inf, str(scores.ty.dtype))
    return scores if visible is None else builder.emit(relax.op.where(visible, scores, hidden))


def _powers(builder: Any, scores: Any, attributes: Mapping[str, Any]) -> Any:
    """The softmax of scores, with zeros in rows that may read no key; preparation removes the test where all may."""
    emit, dtype = builder.emit, str(scores.ty.dtype)
    precision = int(attributes.get("softmax_precision", 0))
    wide = str(helper.tensor_dtype_to_np_dtype(precision)) if precision else dtype
    scores = scores if wide == dtype else emit(relax.op.astype(scores, wide))
    is_any = emit(relax.op.not_equal(scores, relax.const(-np.inf, wide)))
    is_any = emit(relax.op.max(emit(relax.op.astype(is_any, "int8")), -1, keepdims=True))
    is_none = emit(relax.op.logical_not(emit(relax.op.astype(is_any, "bool"))))
    powers = emit(relax.op.where(is_none, relax.const(0.0, wide), emit(relax.op.nn.softmax(scores, axis=-1))))
    return powers if wide == dtype else emit(relax.op.astype(powers, dtype))
