"""Operators that move elements and compute none: shapes, slices, padding."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from tvm import relax, te, tirx

from tunefarm.frontend.stablehlo.attributes import contents, dtype_of, integer, integers, numpy_dtype, shape_of
from tunefarm.frontend.stablehlo.operand import Emitter, Operand, constant
from tunefarm.frontend.stablehlo.operators.elementwise import Converter

R: Final = relax.op


def padded(
    emitter: Emitter,
    data: Any,
    value: Any,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
    name: str = "pad",
) -> Any:
    """Pad by this many elements before, after and between those of each dimension; negative numbers cut off.

    Args:
        emitter: where the call is emitted.
        data: an expression of full shape.
        value: an expression of rank 0.
        low: elements before the first.
        high: elements after the last.
        interior: elements between two; not negative.
        name: of the TIR function.
    """
    if not any((*low, *high, *interior)):
        return data

    def compute(x: te.Tensor, number: te.Tensor) -> te.Tensor:
        sizes = [int(each) for each in x.shape]
        spans = [size + max(size - 1, 0) * gap for size, gap in zip(sizes, interior, strict=True)]
        shape = [span + before + after for span, before, after in zip(spans, low, high, strict=True)]

        def element(*index: Any) -> Any:
            places, conditions = [], []
            for i, span, before, after, gap in zip(index, spans, low, high, interior, strict=True):
                place = i - before
                conditions += [place >= 0] if before > 0 else []
                conditions += [place < span] if after > 0 else []
                conditions += [tirx.floormod(place, gap + 1) == 0] if gap else []
                places.append(tirx.floordiv(place, gap + 1) if gap else place)
            return tirx.if_then_else(tirx.all(*conditions), x(*places), number()) if conditions else x(*places)

        return te.compute(shape, element, name=name)

    return emitter.computed(name, compute, data, value)


def _constant(op: Any, _operands: Sequence[Operand], _emitter: Emitter) -> list[Operand]:
    return [constant(contents(op), dtype_of(op.result))]


def _broadcast(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """Give the operand ones in the new dimensions and leave the rest to its users."""
    data, shape, dimensions = operands[0], shape_of(op.result), integers(op, "broadcast_dimensions")
    if data.scalar is not None:
        return [Operand(relax.const(data.scalar, data.dtype), shape, data.dtype)]
    compact = data.compact
    if len(data.compact_shape) > 1 and list(dimensions) != sorted(dimensions):
        order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
        compact = emitter.emit(R.permute_dims(compact, order))
    sizes = dict(zip(dimensions, data.compact_shape, strict=True))
    ones = tuple(sizes.get(each, 1) for each in range(len(shape)))
    return [Operand(emitter.reshaped(compact, ones), shape, data.dtype)]


def _reshape(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    data, shape = operands[0], shape_of(op.result)
    if data.scalar is not None:
        return [Operand(relax.const(data.scalar, data.dtype), shape, data.dtype)]
    kept = [size for size in data.shape if size != 1] == [size for size in shape if size != 1]
    if kept and data.compact_shape != data.shape:
        of_kept = iter(size for size, whole in zip(data.compact_shape, data.shape, strict=True) if whole != 1)
        compact_shape = tuple(1 if whole == 1 else next(of_kept) for whole in shape)
        return [Operand(emitter.reshaped(data.compact, compact_shape), shape, data.dtype)]
    return [Operand(emitter.reshaped(emitter.full(data), shape), shape, data.dtype)]


def _transpose(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    data, order, shape = operands[0], integers(op, "permutation"), shape_of(op.result)
    if data.scalar is not None:
        return [Operand(data.compact, shape, data.dtype)]
    if list(order) == sorted(order):
        return [data]
    return [Operand(emitter.emit(R.permute_dims(data.compact, order)), shape, data.dtype)]


def _concatenate(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    parts = [emitter.full(each) for each in operands if all(each.shape)]
    whole = R.concat(parts, axis=integer(op, "dimension")) if len(parts) > 1 else parts[0]
    return [emitter.operand(whole, shape_of(op.result), operands[0].dtype)]


def _slice(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    starts, limits = integers(op, "start_indices"), integers(op, "limit_indices")
    return [sliced(emitter, operands[0], starts, limits, integers(op, "strides"), shape_of(op.result))]


def sliced(
    emitter: Emitter,
    data: Operand,
    starts: Sequence[int],
    limits: Sequence[int],
    strides: Sequence[int],
    shape: tuple[int, ...],
) -> Operand:
    """A slice with constant limits; the dimensions that are taken whole or broadcast stay as they are."""
    if data.scalar is not None:
        return Operand(data.compact, shape, data.dtype)
    axes = [axis for axis, size in enumerate(data.compact_shape) if size != 1 and shape[axis] != size]
    if not axes:
        return Operand(data.compact, shape, data.dtype)
    picked = [[each[axis] for axis in axes] for each in (starts, limits, strides)]
    value = emitter.emit(R.strided_slice(data.compact, axes, picked[0], picked[1], picked[2]))
    return Operand(value, shape, data.dtype)


def _pad(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    low, high, interior = (integers(op, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    data, value = emitter.full(operands[0]), emitter.full(operands[1])
    return [Operand(padded(emitter, data, value, low, high, interior), shape_of(op.result), operands[0].dtype)]


def _iota(op: Any, _operands: Sequence[Operand], _emitter: Emitter) -> list[Operand]:
    shape, dimension, dtype = shape_of(op.result), integer(op, "iota_dimension"), dtype_of(op.result)
    counted = np.arange(shape[dimension]).astype(numpy_dtype(dtype))
    compact = counted.reshape([-1 if axis == dimension else 1 for axis in range(len(shape))])
    return [Operand(relax.const(compact, dtype), shape, dtype)]


def _reverse(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    value = emitter.full(operands[0])
    for axis in integers(op, "dimensions"):
        value = emitter.emit(R.flip(value, axis))
    return [Operand(value, operands[0].shape, operands[0].dtype)]


CONVERTERS: Final[dict[str, Converter]] = {
    "chlo.constant": _constant,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.constant": _constant,
    "stablehlo.iota": _iota,
    "stablehlo.pad": _pad,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _reverse,
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}
