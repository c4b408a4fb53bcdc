"""Attention of com.microsoft, with keys and values of earlier tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tvm
from tvm import relax, te
from tvm.ir import GenericConst

from tunefarm.frontend.expressions.along_axis import extents
from tunefarm.frontend.onnx.operators.attention.multi_head_attention import joined_heads, scaled_product
from tunefarm.frontend.onnx.operators.attention.rotary import turned_by_positions
from tunefarm.frontend.onnx.operators.constants import constant
from tunefarm.frontend.onnx.operators.normalization import rms_normalization
from tunefarm_search.relax.loops.partial_updates import REST_IS_UNSPECIFIED

_INPUTS: Final = (
    *("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length"),
    *("cos_cache", "sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale"),
    *("q_norm_weight", "k_norm_weight", "query_seqlens"),
)
"""Of GroupQueryAttention, in their order."""
_Given = Mapping[str, Any]
"""The inputs of a node by their names; None for those that it has not."""


@dataclass(frozen=True)
class _Step:
    """The tokens of one call of GroupQueryAttention. Tensors are int32, of shape (batch,).

    Attributes:
        tokens: of a call, for each sequence.
        total: rows that keys have while scores are computed.
        before: how many rows of its cache each sequence uses before the call; None if none does.
        position: that of the first token of the call; None if it is 0.
        cache: what a cache that keeps the last tokens only drops; None for others.
    """

    tokens: int
    total: int
    before: Any
    position: Any
    cache: "_WindowedCache | None" = None


@dataclass(frozen=True)
class _WindowedCache:
    """A cache of fewer rows than there are tokens.

    Attributes:
        rows: of the cache.
        dropped: how many of the first rows a call drops, int32 of shape (batch,).
    """

    rows: int
    dropped: Any


# 1. Split what is packed, normalize queries and keys, and turn them by their positions.
# 2. Write the new keys and values behind those of earlier tokens.
# 3. Heads that share keys are rows of one product. Hide the keys that come later, or are too far back.
def group_query_attention(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """GroupQueryAttention: output, keys and values of shape (batch, heads of keys, tokens, elements)."""
    del scope
    given = dict(zip(_INPUTS, [*inputs, *[None] * len(_INPUTS)], strict=False))
    _refuse_rare(given, attributes)
    heads, of_keys = int(attributes["num_heads"]), int(attributes["kv_num_heads"])
    queries, keys, values = _split(builder, given, heads, of_keys)
    batch, tokens, _, elements = (int(extent) for extent in queries.ty.shape)
    step = _step_of(builder, given, (batch, tokens), attributes)
    queries = _placed(builder, queries, given, step, attributes, "q")
    keys = _placed(builder, keys, given, step, attributes, "k")
    keys = _with_past(builder, keys, given["past_key"], step)
    values = _with_past(builder, values, given["past_value"], step)
    kept = [keys, values] if step.cache is None else [_last(builder, each, step.cache) for each in (keys, values)]
    rows = builder.emit(relax.op.permute_dims(queries, [0, 2, 1, 3]))
    rows = builder.emit(relax.op.reshape(rows, (batch, of_keys, heads // of_keys * tokens, elements)))
    scores = capped_scores(builder, scaled_scores(builder, rows, keys, attributes), attributes)
    scores = _hidden(builder, scores, _visible(builder, step, attributes, heads // of_keys), given["attention_bias"])
    if given["head_sink"] is not None or attributes.get("smooth_softmax", -1) == 1:
        powers = _with_sink(builder, scores, given["head_sink"], tokens)
    else:
        powers = builder.emit(relax.op.nn.softmax(scores, axis=-1))
    sums = builder.emit(relax.op.matmul(powers, values))
    return relax.Tuple([joined_heads(builder, sums, (batch, heads, tokens)), *kept])


def _refuse_rare(given: _Given, attributes: Mapping[str, Any]) -> None:
    kinds = {attributes.get(name, b"NONE") for name in ("k_quant_type", "v_quant_type")}
    if kinds != {b"NONE"} or given["k_scale"] is not None or given["v_scale"] is not None:
        raise ValueError("a cache of quantized keys or values has no conversion")
    if given["query_seqlens"] is not None:
        raise ValueError("padding behind queries has no conversion")


def _split(builder: Any, given: _Given, heads: int, of_keys: int) -> list[Any]:
    """Queries, keys and values of shape (batch, tokens, heads, elements), from one tensor or three."""
    query, key, value = (given[name] for name in ("query", "key", "value"))
    batch, tokens, width = (int(extent) for extent in query.ty.shape)
    if key is None:
        elements = width // (heads + 2 * of_keys)
        bounds = [heads * elements, (heads + of_keys) * elements]
        parts = builder.emit(relax.op.split(query, bounds, axis=2))
        query, key, value = (builder.emit(relax.TupleGetItem(parts, index)) for index in range(3))
    split = []
    for each, count in ((query, heads), (key, of_keys), (value, of_keys)):
        shape = (batch, int(each.ty.shape[1]), count, int(each.ty.shape[2]) // count)
        split.append(builder.emit(relax.op.reshape(each, shape)))
    if int(split[1].ty.shape[1]) != tokens:
        raise ValueError("keys of other tokens than those of the queries have no conversion")
    return split


def _placed(builder: Any, rows: Any, given: _Given, step: _Step, attributes: Mapping[str, Any], name: str) -> Any:
    """Queries or keys, normalized where they have weights for it, and turned by their positions."""
    weights = given[f"{name}_norm_weight"]
    if weights is not None:
        epsilon = attributes.get(f"{name}_norm_epsilon", attributes.get("qk_norm_epsilon", 1e-6))
        rows = builder.emit(rms_normalization(builder, [rows, weights], {"epsilon": epsilon}, None))
    if not attributes.get("do_rotary", 0):
        return rows
    positions = _positions(builder, step) if given["position_ids"] is None else given["position_ids"]
    interleaved = bool(attributes.get("rotary_interleaved", 0))
    tables = (given["cos_cache"], given["sin_cache"])
    return turned_by_positions(builder, rows, tables, positions, interleaved=interleaved)


def _step_of(builder: Any, given: _Given, extents: tuple[int, int], attributes: Mapping[str, Any]) -> _Step:
    length, (batch, tokens) = given["total_sequence_length"], extents
    if not isinstance(length, GenericConst):
        raise ValueError("its total sequence length depends on the input of the model")
    total = int(length.value.numpy().reshape(()))
    past = 0 if given["past_key"] is None else int(given["past_key"].ty.shape[2])
    is_windowed = bool(attributes.get("sliding_window_cache", 0)) and total > past
    if tokens == total and not is_windowed:
        return _Step(tokens, max(total, past), None, None)
    lengths = builder.emit(relax.op.reshape(given["seqlens_k"], (batch,)))
    if tokens == total:
        before = builder.emit(relax.op.zeros((batch,), "int32"))
    else:
        before = builder.emit(relax.op.subtract(lengths, relax.const(tokens - 1, "int32")))
        before = builder.emit(relax.op.maximum(before, relax.const(0, "int32")))
    if not is_windowed:
        return _Step(tokens, max(total, past), before, before)
    if given["attention_bias"] is not None:
        raise ValueError("a bias of all tokens beside a cache of the last has no conversion")
    # A row that a later token needs stays, and the others go when the cache is full: so many at once.
    at_once = past - int(attributes["local_window_size"]) + 1
    after = builder.emit(relax.op.add(lengths, relax.const(1, "int32")))
    dropped_before, dropped = (_dropped(builder, each, past, at_once) for each in (before, after))
    used = builder.emit(relax.op.subtract(before, dropped_before))
    cache = _WindowedCache(past, builder.emit(relax.op.subtract(dropped, dropped_before)))
    return _Step(tokens, past + tokens, used, before, cache)


def _dropped(builder: Any, count: Any, rows: int, at_once: int) -> Any:
    """How many of so many tokens a cache dropped."""
    more = builder.emit(relax.op.subtract(count, relax.const(rows - at_once + 1, "int32")))
    times = builder.emit(relax.op.floor_divide(more, relax.const(at_once, "int32")))
    whole = builder.emit(relax.op.multiply(times, relax.const(at_once, "int32")))
    return builder.emit(relax.op.maximum(whole, relax.const(0, "int32")))


def _last(builder: Any, rows: Any, cache: _WindowedCache) -> Any:
    """Keys or values without the first, (batch, heads, rows of the cache, elements)."""

    def kept(rows: te.Tensor, dropped: te.Tensor) -> te.Tensor:
        batch, heads, total, elements = (int(extent) for extent in rows.shape)

        def element(sequence: Any, head: Any, token: Any, at: Any) -> Any:
            row = tvm.tirx.max(tvm.tirx.min(token + dropped[sequence], total - 1), 0)
            return rows[sequence, head, row, at]

        return te.compute((batch, heads, cache.rows, elements), element, name="kept")

    return builder.emit_te(kept, rows, cache.dropped, primfunc_name_hint="kept")


def _positions(builder: Any, step: _Step) -> Any:
    """Those of the tokens of a step, of shape (batch or 1, tokens)."""
    numbers = constant(np.arange(step.tokens, dtype=np.int32)[None])
    if step.position is None:
        return numbers
    return builder.emit(relax.op.add(builder.emit(relax.op.expand_dims(step.position, 1)), numbers))


def _with_past(builder: Any, new: Any, past: Any, step: _Step) -> Any:
    """Keys or values of earlier tokens, then new ones, then zeros: (batch, heads, total, elements)."""
    if step.before is None and step.total == step.tokens:
        return builder.emit(relax.op.permute_dims(new, [0, 2, 1, 3]))
    if step.before is None or past is None:
        ahead = builder.emit(relax.op.permute_dims(new, [0, 2, 1, 3]))
        filled = [0, 0, 0, 0, 0, step.total - step.tokens, 0, 0]
        return builder.emit(relax.op.nn.pad(ahead, filled))

    def appended(past: te.Tensor, new: te.Tensor, before: te.Tensor) -> te.Tensor:
        batch, room, heads, elements = (int(extent) for extent in (*past.shape[:1], past.shape[2], *new.shape[2:]))
        zero = tvm.tirx.const(0, new.dtype)

        def element(sequence: Any, head: Any, token: Any, at: Any) -> Any:
            number = token - before[sequence]
            known = past[sequence, head, token if room == step.total else tvm.tirx.min(token, room - 1), at]
            own = new[sequence, tvm.tirx.max(tvm.tirx.min(number, step.tokens - 1), 0), head, at]
            behind = tvm.tirx.if_then_else(number < step.tokens, own, zero)
            return tvm.tirx.if_then_else(number < 0, known, behind)

        attributes = {REST_IS_UNSPECIFIED: 1}  # nothing reads rows behind the last token
        return te.compute((batch, heads, step.total, elements), element, name="appended", attrs=attributes)

    return builder.emit_te(appended, past, new, step.before, primfunc_name_hint="appended")


def scaled_scores(builder: Any, rows: Any, keys: Any, attributes: Mapping[str, Any]) -> Any:
    """Products of rows and keys of shape (batch, heads, rows, keys), scaled as a node says."""
    scale = float(attributes.get("scale", 0.0)) or int(rows.ty.shape[3]) ** -0.5
    return scaled_product(builder, rows, keys, scale)


def capped_scores(builder: Any, scores: Any, attributes: Mapping[str, Any]) -> Any:
    """Scores between the bounds that a node has, if it has any."""
    dtype, cap = str(scores.ty.dtype), float(attributes.get("softcap", 0.0))
    if cap <= 0:
        return scores
    bounded = relax.op.tanh(builder.emit(relax.op.multiply(scores, relax.const(1 / cap, dtype))))
    return builder.emit(relax.op.multiply(builder.emit(bounded), relax.const(cap, dtype)))


def _visible(builder: Any, step: _Step, attributes: Mapping[str, Any], groups: int) -> Any:
    """Which keys a row may read, of shape (batch or 1, 1, rows, keys)."""
    keys = constant(np.arange(step.total, dtype=np.int32).reshape(1, 1, 1, -1))
    rows = constant(np.tile(np.arange(step.tokens, dtype=np.int32), groups).reshape(1, 1, -1, 1))
    last = constant(np.full((1, 1, 1, 1), step.tokens - 1, np.int32))
    if step.before is not None:
        before = builder.emit(relax.op.reshape(step.before, (-1, 1, 1, 1)))
        rows, last = (builder.emit(relax.op.add(before, each)) for each in (rows, last))
    if not attributes.get("causal", 1):
        return builder.emit(relax.op.less_equal(keys, last))
    visible = builder.emit(relax.op.less_equal(keys, rows))
    window = int(attributes.get("local_window_size", -1))
    if 0 < window < step.total:
        first = builder.emit(relax.op.subtract(rows, relax.const(window, "int32")))
        visible = builder.emit(relax.op.logical_and(visible, builder.emit(relax.op.greater(keys, first))))
    return visible


def _bias_of_groups(builder: Any, bias: Any, scores: Any) -> Any:
    """What is added to scores, (batch or 1, heads or 1, tokens, keys), for heads that are rows of one product."""
    *_, tokens, keys = extents(bias)
    _, of_keys, rows, total = extents(scores)
    if keys != total:
        bias = builder.emit(relax.op.nn.pad(bias, [0, 0, 0, 0, 0, 0, 0, total - keys]))
    return mask_of_groups(builder, bias, (of_keys, rows // tokens, tokens))


def mask_of_groups(builder: Any, mask: Any, sizes: tuple[int, int, int]) -> Any:
    """A mask for heads that are rows of one product.

    Args:
        builder: of the Relax function.
        mask: of shape (batch or 1, heads or 1, tokens or 1, keys).
        sizes: heads of keys, heads that share each of them, and tokens.
    """
    of_keys, groups, tokens = sizes
    batch, heads, own_tokens, keys = extents(mask)
    if heads > 1:
        if own_tokens < tokens:
            mask = builder.emit(relax.op.broadcast_to(mask, (batch, heads, tokens, keys)))
        return builder.emit(relax.op.reshape(mask, (batch, of_keys, groups * tokens, keys)))
    return mask if own_tokens == 1 or groups == 1 else builder.emit(relax.op.concat([mask] * groups, axis=2))


def _hidden(builder: Any, scores: Any, visible: Any, bias: Any) -> Any:
    """Scores without those of keys that a row may not read."""
    dtype = str(scores.ty.dtype)
    least = relax.const(float(np.finfo(dtype).min), dtype)
    if bias is None:
        return builder.emit(relax.op.where(visible, scores, least))
    bias = _bias_of_groups(builder, bias, scores)
    return builder.emit(relax.op.add(scores, builder.emit(relax.op.where(visible, bias, least))))


def _with_sink(builder: Any, scores: Any, sink: Any, tokens: int) -> Any:
    """A softmax that has one more score in its sum: that of each head, or 0."""
    dtype, of_keys, rows = str(scores.ty.dtype), int(scores.ty.shape[1]), int(scores.ty.shape[2])
    if sink is None:
        more = relax.const(0, dtype)
    else:
        each = builder.emit(relax.op.reshape(sink, (1, of_keys, rows // tokens, 1)))
        more = builder.emit(relax.op.repeat(each, tokens, axis=2)) if tokens > 1 else each
    largest = builder.emit(relax.op.maximum(builder.emit(relax.op.max(scores, -1, keepdims=True)), more))
    powers = builder.emit(relax.op.exp(builder.emit(relax.op.subtract(scores, largest))))
    of_sink = builder.emit(relax.op.exp(builder.emit(relax.op.subtract(more, largest))))
    total = builder.emit(relax.op.add(builder.emit(relax.op.sum(powers, -1, keepdims=True)), of_sink))
    return builder.emit(relax.op.divide(powers, total))
