"""Converters of operators that collect rows, or scatter values into them."""

from types import MappingProxyType
from typing import Any, Final

import torch
from torch import fx
from tvm import relax

from tunefarm.frontend.expressions.along_axis import scattered
from tunefarm.frontend.pytorch.operators.nodes import MAX_PAIRED, argument, as_kind, value_of

_REDUCTIONS: Final = MappingProxyType({"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"})
"""Of ``scatter_reduce``: torch's names, and those of Relax."""
_MEAN_OF_VALUES: Final = "mean"
_EXTREMES: Final = frozenset({"amax", "amin"})
_OF_SCATTER: Final = MappingProxyType({None: "update", "add": "add", "multiply": "mul"})
_SUM, _MEAN, _MAX = range(3)
"""Modes of embedding bags."""


def scatter_add(node: fx.Node, importer: Any) -> Any:
    """Values added to elements at positions of one axis."""
    return _scattered(node, importer, importer.env[node.args[0]], "add")


def scatter_reduce(node: fx.Node, importer: Any) -> Any:
    """Values combined with elements at positions of one axis, or with each other in place of these elements."""
    emit, name = importer.block_builder.emit, node.args[4]
    includes = argument(node, 5, "include_self", True)
    if includes and name != _MEAN_OF_VALUES:
        return _scattered(node, importer, importer.env[node.args[0]], _REDUCTIONS[name])
    data, positions = (importer.env[node.args[each]] for each in (0, 2))
    kind = str(data.ty.dtype)
    none, ones = emit(relax.op.zeros(data.ty.shape, kind)), emit(relax.op.ones(positions.ty.shape, kind))
    counts = scattered(none, positions, ones, node.args[1], "add", emit)
    if not includes:
        is_met = emit(relax.op.greater(counts, relax.const(0, kind)))
        data = emit(relax.op.where(is_met, relax.const(_neutral(name, value_of(node).dtype), kind), data))
    result = _scattered(node, importer, data, _REDUCTIONS[name])
    if name != _MEAN_OF_VALUES:
        return result
    one = relax.const(1, kind)
    counts = emit(relax.op.add(counts, one)) if includes else emit(relax.op.maximum(counts, one))
    divide = relax.op.divide if value_of(node).dtype.is_floating_point else relax.op.floor_divide
    return emit(divide(result, counts))


def _neutral(name: str, dtype: torch.dtype) -> float:
    """What changes nothing when it is combined with a value."""
    if name not in _EXTREMES:
        return 1 if name == "prod" else 0
    if dtype.is_floating_point:
        return float("-inf") if name == "amax" else float("inf")
    limits = torch.iinfo(dtype)
    return int(limits.min if name == "amax" else limits.max)  # as a float, that of int64 would be rounded beyond it


def scatter(node: fx.Node, importer: Any) -> Any:
    """Values in place of elements at positions of one axis, or combined with them."""
    return _scattered(node, importer, importer.env[node.args[0]], _OF_SCATTER[node.kwargs.get("reduce")])


def _scattered(node: fx.Node, importer: Any, data: Any, reduction: str) -> Any:
    emit, positions = importer.block_builder.emit, importer.env[node.args[2]]
    values, kind = node.args[3], str(data.ty.dtype)
    if isinstance(values, fx.Node):
        values = as_kind(kind, importer.env[values], emit)
    else:
        values = emit(relax.op.full(positions.ty.shape, relax.const(values, kind), kind))
    return scattered(data, positions, values, node.args[1], reduction, emit)


def masked_scatter(node: fx.Node, importer: Any) -> Any:
    """The elements of a source in their order, in place of those that a mask has."""
    data, mask, source = (importer.env[each] for each in node.args[:3])
    emit = importer.block_builder.emit
    count, shape = int(value_of(node.args[2]).numel()), data.ty.shape
    if count == 0:
        return data
    mask = emit(relax.op.broadcast_to(mask, shape))
    chosen = emit(relax.op.astype(emit(relax.op.reshape(mask, [-1])), "int64"))
    place = emit(relax.op.subtract(emit(relax.op.cumsum(chosen, 0)), relax.const(1, "int64")))
    place = emit(relax.op.clip(place, 0, count - 1))  # that of elements before the first one of the mask is -1
    taken = emit(relax.op.take(emit(relax.op.reshape(source, [-1])), place, axis=0))
    return emit(relax.op.where(mask, emit(relax.op.reshape(taken, shape)), data))


def searched(node: fx.Node, importer: Any) -> Any:
    """Where values belong in sorted rows, so that these stay sorted: all values in one row, or each row in its own."""
    row, values = importer.env[node.args[0]], node.args[1]
    if node.kwargs.get("sorter") is not None:
        raise ValueError("it searches in rows that are not sorted")
    is_right = node.kwargs.get("right", False) or node.kwargs.get("side") == "right"
    emit = importer.block_builder.emit
    if isinstance(values, float) and "float" not in str(row.ty.dtype):
        row = emit(relax.op.astype(row, "float32"))
    values = importer.env[values] if isinstance(values, fx.Node) else relax.const(values, str(row.ty.dtype))
    if row.ty.ndim > 1:
        row = emit(relax.op.expand_dims(row, -2))
    before = relax.op.less_equal if is_right else relax.op.less
    is_before = emit(before(row, emit(relax.op.expand_dims(values, values.ty.ndim))))
    return emit(relax.op.sum(emit(relax.op.astype(is_before, "int64")), -1))


def histogram(node: fx.Node, importer: Any) -> Any:
    """How many elements are in each of several intervals of one width."""
    low, high = argument(node, 2, "min", 0), argument(node, 3, "max", 0)
    if low >= high:
        raise ValueError("its bounds are those of the data")
    emit, bins = importer.block_builder.emit, argument(node, 1, "bins", 100)
    data = emit(relax.op.reshape(importer.env[node.args[0]], [-1]))
    kind = str(data.ty.dtype)
    least, most, size, last = (relax.const(each, kind) for each in (low, high, high - low, bins - 1))
    scaled = emit(relax.op.multiply(emit(relax.op.subtract(data, least)), relax.const(bins, kind)))
    place = emit(relax.op.minimum(emit(relax.op.floor(emit(relax.op.divide(scaled, size)))), last))
    is_within = emit(relax.op.logical_and(relax.op.greater_equal(data, least), relax.op.less_equal(data, most)))
    place = emit(relax.op.where(is_within, place, relax.const(-1, kind)))
    numbers = relax.const(torch.arange(bins, dtype=value_of(node).dtype)[:, None].numpy())
    return emit(relax.op.sum(emit(relax.op.astype(emit(relax.op.equal(numbers, place)), kind)), 1))


def embedding_bag(node: fx.Node, importer: Any) -> Any:
    """Sums or means of rows of a table, as a product with the matrix that says which bag a row is in, or maxima."""
    table, indices, offsets = (importer.env[each] for each in node.args[:3])
    mode, weights = argument(node, 4, "mode", 0), argument(node, 6, "per_sample_weights")
    has_end = argument(node, 7, "include_last_offset")
    left_out = argument(node, 8, "padding_idx", -1)
    emit, kind = importer.block_builder.emit, str(table.ty.dtype)
    rows, bags = int(value_of(node.args[1]).shape[0]), int(value_of(node)[0].shape[0])
    begins = offsets if not has_end else emit(relax.op.strided_slice(offsets, [0], [0], [bags]))
    places = relax.const(torch.arange(rows).numpy(), str(begins.ty.dtype))
    begun = emit(relax.op.less_equal(emit(relax.op.expand_dims(begins, 1)), places))  # (bags, rows)
    begun = emit(relax.op.astype(begun, kind))
    following = emit(relax.op.strided_slice(begun, [0], [1], [bags]))
    none = emit(relax.op.zeros(relax.ShapeExpr([1, rows]), kind))
    is_in = emit(relax.op.subtract(begun, emit(relax.op.concat([following, none], 0)) if bags > 1 else none))
    if left_out >= 0:
        is_kept = emit(relax.op.not_equal(indices, relax.const(left_out, str(indices.ty.dtype))))
        is_in = emit(relax.op.multiply(is_in, emit(relax.op.astype(is_kept, kind))))
    chosen = emit(relax.op.take(table, indices, axis=0))
    if mode == _MAX:
        return _maxima_of_bags(is_in, chosen, emit), None, None, None
    shares = is_in if weights is None else emit(relax.op.multiply(is_in, importer.env[weights]))
    result = emit(relax.op.matmul(shares, chosen))
    if mode == _MEAN:
        counts = emit(relax.op.maximum(emit(relax.op.sum(is_in, 1, True)), relax.const(1, kind)))
        result = emit(relax.op.divide(result, counts))
    return result, None, None, None


def _maxima_of_bags(is_in: Any, rows: Any, emit: Any) -> Any:
    """The maxima of the rows of each bag, of all pairs of a bag and a row; zeros of a bag without rows."""
    count, kind = int(rows.ty.shape[0]), str(rows.ty.dtype)
    if count > MAX_PAIRED:
        raise ValueError(f"maxima of {count} rows are of more than {MAX_PAIRED}")
    zero, one, least = (relax.const(each, kind) for each in (0, 1, float("-inf")))
    belongs = emit(relax.op.equal(emit(relax.op.expand_dims(is_in, -1)), one))
    maxima = emit(relax.op.max(emit(relax.op.where(belongs, emit(relax.op.expand_dims(rows, 0)), least)), 1))
    is_empty = emit(relax.op.equal(emit(relax.op.sum(is_in, 1, True)), zero))
    return emit(relax.op.where(is_empty, zero, maxima))
