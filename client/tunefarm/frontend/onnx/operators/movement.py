"""Operators that move elements or scan an axis, whose converters in TVM are missing or ignore an attribute."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import helper
from tvm import relax
from tvm.ir import GenericConst

from tunefarm.frontend.expressions.along_axis import extents
from tunefarm.frontend.onnx.operators.constants import constant, numbers_of


def space_to_depth(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Blocks of pixels as channels, before or behind the channels that are there; TVM knows the first order only."""
    del scope
    block, (batch, channels, height, width) = int(attributes["blocksize"]), extents(inputs[0])
    parts = [batch, channels, height // block, block, width // block, block]
    order = [0, 1, 3, 5, 2, 4] if attributes.get("mode", b"DCR") == b"CRD" else [0, 3, 5, 1, 2, 4]
    turned = builder.emit(relax.op.permute_dims(builder.emit(relax.op.reshape(inputs[0], parts)), order))
    return relax.op.reshape(turned, [batch, channels * block * block, height // block, width // block])


def identity_like(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """EyeLike, of another type than the input too."""
    del builder, scope
    rows, columns = extents(inputs[0])
    given = attributes.get("dtype")
    dtype = str(inputs[0].ty.dtype) if given is None else helper.tensor_dtype_to_np_dtype(given)
    return constant(np.eye(rows, columns, int(attributes.get("k", 0)), dtype))


def compress(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """The elements for which a constant condition holds."""
    del scope
    condition, axis = numbers_of(inputs[1]), attributes.get("axis")
    places = np.flatnonzero(condition) if condition is not None else np.zeros(0)
    if not places.size:
        raise ValueError("nothing is left of it")
    data = inputs[0] if axis is not None else builder.emit(relax.op.reshape(inputs[0], (-1,)))
    return relax.op.take(data, relax.const(places, "int64"), axis or 0)


def reversed_sequences(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """ReverseSequence: the first elements of each sequence of a batch in reverse order."""
    del scope
    (data, lengths), emit, shape = inputs, builder.emit, extents(inputs[0])
    time, batch = int(attributes.get("time_axis", 0)), int(attributes.get("batch_axis", 1))
    steps = constant(np.arange(shape[time]).reshape(-1, 1) if time == 0 else np.arange(shape[time])[None])
    ends = emit(relax.op.expand_dims(lengths, 0 if batch == 1 else 1))
    last = emit(relax.op.subtract(ends, constant(np.int64(1))))
    places = relax.op.where(emit(relax.op.less(steps, ends)), emit(relax.op.subtract(last, steps)), steps)
    places = emit(relax.op.expand_dims(emit(places), list(range(2, len(shape)))))
    return relax.op.gather_elements(data, emit(relax.op.broadcast_to(places, shape)), time)


def running_product(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """CumProd, from either end, with or without the element itself."""
    del scope
    (data, axis), emit = inputs[:2], builder.emit
    if not isinstance(axis, GenericConst):
        raise ValueError("its axis is not a constant")
    place, is_reversed = int(axis.value.numpy().reshape(())) % len(extents(data)), bool(attributes.get("reverse", 0))
    data = emit(relax.op.flip(data, place)) if is_reversed else data
    if attributes.get("exclusive", 0):
        shape = extents(data)
        before = relax.op.strided_slice(data, [place], [0], [shape[place] - 1])
        one = relax.op.ones([1 if each == place else extent for each, extent in enumerate(shape)], str(data.ty.dtype))
        data = emit(relax.op.concat([emit(one), emit(before)], place))
    result = emit(relax.op.cumprod(data, place))
    return relax.op.flip(result, place) if is_reversed else result
