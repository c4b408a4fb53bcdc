"""Operators in the layout with the channels last, where their operands are in that layout.

Products of integers give their channels last; a transposition behind each of them restores the layout of the model.
Operators that do not depend on the layout move it behind themselves, so that most of them are never computed.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from tvm import relax, topi

from tunefarm_search.relax.constants import array_of, constant_of, is_constant
from tunefarm_search.relax.expressions import BINARY, ELEMENTWISE, OPAQUE, Lookup, integers, operator_of, scalar_of

_POOLS: Final = {
    "relax.nn.max_pool2d": relax.op.nn.max_pool2d,
    "relax.nn.avg_pool2d": relax.op.nn.avg_pool2d,
}

_CONCATENATION: Final = "relax.concat"
_FLIP: Final = "relax.flip"
_SLICE: Final = "relax.strided_slice"


def channels_first_axes(rank: int) -> list[int]:
    """Axes that bring channels from the last to the second place."""
    return [0, rank - 1, *range(1, rank - 1)]


def channels_last_axes(rank: int) -> list[int]:
    """Axes that bring channels from the second to the last place."""
    return [0, *range(2, rank), 1]


def channels_last_of(expression: Any, lookup: Lookup) -> Any:
    """The tensor with channels last that ``expression`` transposes; None if it is no such transposition."""
    call = lookup(expression)
    if operator_of(call) != "relax.permute_dims" or call.attrs.axes is None:
        return None
    axes = [int(axis) for axis in call.attrs.axes]
    return call.args[0] if len(axes) > 2 and axes == channels_first_axes(len(axes)) else None


def channels_last_call(call: Any, lookup: Lookup, builder: Any) -> Any:
    """The same call on operands with channels last, transposed; None if no operand is a transposition of such."""
    rewrite = _REWRITES.get(operator_of(call))
    if rewrite is None or not any(channels_last_of(each, lookup) is not None for each in _tensors(call)):
        return None
    return rewrite(call, lookup, builder)


def _tensors(call: Any) -> Sequence[Any]:
    first = call.args[0]
    return list(first.fields) if isinstance(first, relax.Tuple) else list(call.args)


def _transposed(builder: Any, result: Any) -> Any:
    emitted = builder.emit(result)
    return relax.op.permute_dims(emitted, channels_first_axes(len(emitted.ty.shape)))


def _elementwise(call: Any, lookup: Lookup, builder: Any) -> Any:
    data = channels_last_of(call.args[0], lookup)
    arguments = [data, *list(call.args)[1:]]
    return None if data is None else _transposed(builder, relax.Call(call.op, arguments, call.attrs))


def _binary(call: Any, lookup: Lookup, builder: Any) -> Any:
    rank = len(call.ty.shape)
    operands = [_broadcast_operand(each, rank, lookup, builder) for each in call.args]
    if any(each is None for each in operands):
        return None
    return _transposed(builder, relax.Call(call.op, operands, call.attrs))


def _broadcast_operand(given: Any, rank: int, lookup: Lookup, builder: Any) -> Any:
    """The same, but for constants of one element, which need no axes."""
    known = lookup(given)
    if is_constant(known) and array_of(known).size == 1:
        return constant_of(array_of(known).reshape(()))
    return _operand(given, rank, lookup, builder)


def _operand(given: Any, rank: int, lookup: Lookup, builder: Any) -> Any:
    """An operand of rank ``rank`` with channels last; numbers as they are."""
    if not isinstance(given.ty, relax.TensorType):
        return given
    known = lookup(given)
    if is_constant(known):
        array = array_of(known)
        filled = array.reshape([1] * (rank - array.ndim) + list(array.shape))
        return constant_of(np.transpose(filled, channels_last_axes(rank)))
    moved = channels_last_of(given, lookup)
    if moved is not None:
        return moved if len(moved.ty.shape) == rank else None
    if len(given.ty.shape) != rank:
        return None
    return builder.emit(relax.op.permute_dims(given, channels_last_axes(rank)))


def _scaled(call: Any, lookup: Lookup, builder: Any) -> Any:
    """Quantize or dequantize."""
    data = channels_last_of(call.args[0], lookup)
    if data is None:
        return None
    axis, rank = int(call.attrs.axis), len(call.ty.shape)
    if all(scalar_of(lookup(each)) is not None for each in call.args[1:3]):
        axis = -1
    else:
        axis = channels_last_axes(rank).index(axis % rank)
    operator = getattr(relax.op, operator_of(call).removeprefix("relax."))
    return _transposed(builder, operator(data, call.args[1], call.args[2], axis, str(call.attrs.out_dtype)))


def _pool(call: Any, lookup: Lookup, builder: Any) -> Any:
    data, attributes = channels_last_of(call.args[0], lookup), call.attrs
    if data is None or str(attributes.layout) != "NCHW" or str(attributes.out_layout) != "NCHW":
        return None
    sizes = [integers(getattr(attributes, name)) for name in ("pool_size", "strides", "padding", "dilation")]
    operator = _POOLS[operator_of(call)]
    flags = (bool(attributes.ceil_mode), bool(attributes.count_include_pad))
    return _transposed(builder, operator(data, *sizes, *flags, layout="NHWC"))


def _adaptive_pool(call: Any, lookup: Lookup, builder: Any) -> Any:
    data, attributes = channels_last_of(call.args[0], lookup), call.attrs
    if data is None or str(attributes.layout) != "NCHW" or str(attributes.out_layout) != "NCHW":
        return None
    size = None if attributes.output_size is None else [int(each) for each in attributes.output_size]
    return _transposed(builder, relax.op.nn.adaptive_avg_pool2d(data, size, layout="NHWC"))


def _resize(call: Any, lookup: Lookup, builder: Any) -> Any:
    data, attributes = channels_last_of(call.args[0], lookup), call.attrs
    if data is None or str(attributes.layout) != "NCHW" or str(call.ty.dtype) != str(data.ty.dtype):
        return None
    named: dict[str, Any] = {
        "roi": [float(each) for each in attributes.roi],
        "method": str(attributes.method),
        "coordinate_transformation_mode": str(attributes.coordinate_transformation_mode),
        "rounding_method": str(attributes.rounding_method),
        "cubic_alpha": float(attributes.cubic_alpha),
        "cubic_exclude": int(attributes.cubic_exclude),
        "extrapolation_value": float(attributes.extrapolation_value),
    }
    return _transposed(builder, relax.op.image.resize2d(data, call.args[1], layout="NHWC", **named))


def _reduction(call: Any, lookup: Lookup, builder: Any) -> Any:
    data, attributes = channels_last_of(call.args[0], lookup), call.attrs
    if data is None or attributes.axis is None:
        return None
    rank = len(data.ty.shape)
    axes = sorted(int(axis) % rank for axis in attributes.axis)
    moved = [channels_last_axes(rank).index(axis) for axis in axes]
    reduce = getattr(relax.op, operator_of(call).removeprefix("relax."))
    if bool(attributes.keepdims):
        return _transposed(builder, reduce(data, moved, keepdims=True))
    if not set(axes) <= set(range(2, rank)):
        return None
    reduced = reduce(data, moved)
    return reduced if len(axes) == rank - 2 else _transposed(builder, reduced)


def _concatenation(call: Any, lookup: Lookup, builder: Any) -> Any:
    rank = len(call.ty.shape)
    operands = [_operand(each, rank, lookup, builder) for each in _tensors(call)]
    if any(each is None for each in operands) or call.attrs.axis is None:
        return None
    axis = channels_last_axes(rank).index(int(call.attrs.axis) % rank)
    return _transposed(builder, relax.op.concat(operands, axis))


def _slice(call: Any, lookup: Lookup, builder: Any) -> Any:
    data = channels_last_of(call.args[0], lookup)
    return None if data is None else _transposed(builder, _same_part(call, data))


def _same_part(call: Any, data: Any) -> Any:
    """A call of ``strided_slice`` or ``flip`` on ``data``, which has the channels last."""
    places = channels_last_axes(data.ty.ndim)
    if operator_of(call) == _FLIP:
        return relax.op.flip(data, places.index(int(call.attrs.axis) % data.ty.ndim))
    axes, *bounds = (integers(numbers) for numbers in call.args[1:])
    return relax.op.strided_slice(data, [places.index(axis % data.ty.ndim) for axis in axes], *bounds)


def pieces_with_channels_last(expression: Any, lookup: Lookup, builder: Any) -> Any:
    """Pieces of one tensor side by side, such as an image with its reflection around it, with the channels last.

    That tensor is transposed before, by a function that is fused with none: choices between pieces would take its
    tiles. Rows of channels are then copied as they are. None for other expressions.
    """
    sources = _sources(expression, lookup) if _side_by_side(lookup(expression)) else set()
    if len(sources) != 1:
        return None
    (source,) = sources
    axes, alone = channels_last_axes(source.ty.ndim), {"op_pattern": OPAQUE}
    moved = builder.emit_te(topi.transpose, source, axes, primfunc_name_hint="transpose", primfunc_attrs=alone)
    return _pieces(expression, moved, lookup, builder)


def _side_by_side(value: Any) -> Sequence[Any]:
    """The pieces that an expression puts together along an axis of pixels; empty for other expressions."""
    if operator_of(value) != _CONCATENATION or int(value.attrs.axis) % value.ty.ndim < 2:
        return ()
    return list(value.args[0].fields) if isinstance(value.args[0], relax.Tuple) else ()


def _sources(expression: Any, lookup: Lookup) -> set[Any]:
    """The tensors of whose pieces an expression consists; itself if it does not consist of pieces."""
    value = lookup(expression)
    if pieces := _side_by_side(value):
        return {source for each in pieces for source in _sources(each, lookup)}
    return _sources(value.args[0], lookup) if operator_of(value) in {_SLICE, _FLIP} else {expression}


def _pieces(expression: Any, source: Any, lookup: Lookup, builder: Any) -> Any:
    """``expression`` with ``source``, which has the channels last, in place of what it consists of."""
    value = lookup(expression)
    if pieces := _side_by_side(value):
        moved = [_pieces(each, source, lookup, builder) for each in pieces]
        return builder.emit(relax.op.concat(moved, int(value.attrs.axis) % value.ty.ndim - 1))
    if operator_of(value) in {_SLICE, _FLIP}:
        return builder.emit(_same_part(value, _pieces(value.args[0], source, lookup, builder)))
    return source


def _permutation(call: Any, lookup: Lookup, _builder: Any) -> Any:
    """A transposition that undoes the other."""
    data = channels_last_of(call.args[0], lookup)
    if data is None or call.attrs.axes is None:
        return None
    return data if [int(axis) for axis in call.attrs.axes] == channels_last_axes(len(data.ty.shape)) else None


_REWRITES: Final[dict[str, Callable[[Any, Lookup, Any], Any]]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(_POOLS, _pool),
    _CONCATENATION: _concatenation,
    "relax.dequantize": _scaled,
    _FLIP: _slice,
    _SLICE: _slice,
    "relax.image.resize2d": _resize,
    "relax.max": _reduction,
    "relax.mean": _reduction,
    "relax.min": _reduction,
    "relax.nn.adaptive_avg_pool2d": _adaptive_pool,
    "relax.permute_dims": _permutation,
    "relax.quantize": _scaled,
    "relax.sum": _reduction,
}
