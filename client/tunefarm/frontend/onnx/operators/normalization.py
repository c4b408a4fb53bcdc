"""Norms, whose converters in TVM are missing, give some of the results, or are wrong for some types and attributes."""

import functools
from collections.abc import Mapping
from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from tunefarm.frontend.onnx.operators.constants import cast


def mean_variance_normalization(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """By differences from the mean, and with ONNX's epsilon: TVM's gives NaN for equal elements."""
    del scope
    x, axes = inputs[0], list(attributes.get("axes", (0, 2, 3)))
    wide = _widened(builder, x)
    apart = builder.emit(relax.op.subtract(wide, relax.op.mean(wide, axes, keepdims=True)))
    deviation = builder.emit(relax.op.sqrt(relax.op.mean(relax.op.multiply(apart, apart), axes, keepdims=True)))
    quotient = relax.op.divide(apart, relax.op.add(deviation, relax.const(1e-9, str(wide.ty.dtype))))
    return cast(builder, builder.emit(quotient), str(x.ty.dtype))


def local_response_normalization(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Of any rank, in the type of the input, and over an even number of channels; TVM has none of these."""
    del scope
    x, size = inputs[0], attributes["size"]
    wide = _widened(builder, x)
    dtype, before = str(wide.ty.dtype), (size - 1) // 2
    around = [0, 0, before, size - 1 - before, *[0, 0] * (len(x.ty.shape) - 2)]
    squares = builder.emit(relax.op.nn.pad(builder.emit(relax.op.multiply(wide, wide)), around))
    channels = int(x.ty.shape[1])
    windows = [relax.op.strided_slice(squares, [1], [first], [first + channels]) for first in range(size)]
    total = builder.emit(functools.reduce(relax.op.add, windows))
    scaled = relax.op.multiply(total, relax.const(attributes.get("alpha", 1e-4) / size, dtype))
    base = relax.op.add(scaled, relax.const(attributes.get("bias", 1.0), dtype))
    quotient = relax.op.divide(wide, relax.op.power(base, relax.const(attributes.get("beta", 0.75), dtype)))
    return cast(builder, builder.emit(quotient), str(x.ty.dtype))


def rms_normalization(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Over any number of axes: TVM's operator cannot be lowered for several."""
    del scope
    x, scale, dtype = inputs[0], inputs[1], str(inputs[0].ty.dtype)
    rank = len(x.ty.shape)
    axes = list(range(attributes.get("axis", -1) % rank, rank))
    wide = _widened(builder, x)
    epsilon = relax.const(attributes.get("epsilon", 1e-5), str(wide.ty.dtype))
    mean = relax.op.mean(relax.op.multiply(wide, wide), axes, keepdims=True)
    normal = builder.emit(relax.op.multiply(wide, relax.op.rsqrt(relax.op.add(mean, epsilon))))
    return relax.op.multiply(cast(builder, normal, dtype), scale)


def skip_normalization(*, of_squares: bool) -> Any:
    """Converters of a sum and its norm, where bias and shift may be missing, and the sum may be a result."""

    def convert(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
        x, skip, scale = inputs[0], inputs[1], inputs[2]
        shift, bias = (None, inputs[3]) if of_squares else (inputs[3], inputs[4])
        epsilon, total = attributes.get("epsilon", 1e-12), builder.emit(relax.op.add(x, skip))
        total = total if bias is None else builder.emit(relax.op.add(total, bias))
        if of_squares:
            result = rms_normalization(builder, [total, scale], {"epsilon": epsilon}, scope)
        else:
            shift = relax.op.zeros_like(scale) if shift is None else shift
            result = relax.op.nn.layer_norm(total, scale, shift, axes=-1, epsilon=epsilon)
        unused = relax.const(0, "float32")
        return relax.Tuple([builder.emit(result), unused, unused, total])

    return convert


def lp_normalization(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Divided by the sum of the magnitudes along an axis, or by the root of that of the squares; 0 if that is 0."""
    del scope
    x, axis, dtype = _widened(builder, inputs[0]), attributes.get("axis", -1), str(inputs[0].ty.dtype)
    if attributes.get("p", 2) == 1:
        norm = relax.op.sum(relax.op.abs(x), axis, keepdims=True)
    else:
        norm = relax.op.sqrt(relax.op.sum(relax.op.multiply(x, x), axis, keepdims=True))
    norm, zero = builder.emit(norm), relax.const(0, str(x.ty.dtype))
    divisor = relax.op.where(relax.op.equal(norm, zero), relax.const(1, str(x.ty.dtype)), norm)
    return cast(builder, builder.emit(relax.op.divide(x, builder.emit(divisor))), dtype)


def with_wide_squares(converter: Any) -> Any:
    """A converter of a sum of squares that gets float32 in place of halves, whose squares overflow from 256 on."""

    def convert(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
        wide = onnx_frontend.onnx_input([_widened(builder, inputs[0]), *list(inputs)[1:]])
        result = builder.normalize(converter(builder, wide, attributes, scope))
        return cast(builder, result, str(inputs[0].ty.dtype))

    return convert


def batch_normalization(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """By the given statistics; TVM's converter takes those also in training, where they are of the batch."""
    if attributes.get("training_mode", 0):
        raise ValueError("it is in training: export the model for inference")
    return onnx_frontend.BatchNormalization.get_converter(15)(builder, inputs, attributes, scope)


def layer_normalization(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """With the mean and the inverse deviation as results, where they are read: TVM's converter gives zeros."""
    if attributes["tvm_custom"]["num_outputs"] == 1:
        return onnx_frontend.LayerNormalization.get_converter(17)(builder, inputs, attributes, scope)
    x, scale, shift, emit = inputs[0], inputs[1], inputs[2], builder.emit
    axes = list(range(attributes.get("axis", -1) % x.ty.ndim, x.ty.ndim))
    wide = _widened(builder, x)
    mean = emit(relax.op.mean(wide, axes, keepdims=True))
    apart = emit(relax.op.subtract(wide, mean))
    epsilon = relax.const(attributes.get("epsilon", 1e-5), str(wide.ty.dtype))
    variance = emit(relax.op.mean(relax.op.multiply(apart, apart), axes, keepdims=True))
    inverse = emit(relax.op.rsqrt(emit(relax.op.add(variance, epsilon))))
    scaled = relax.op.multiply(cast(builder, emit(relax.op.multiply(apart, inverse)), str(x.ty.dtype)), scale)
    result = scaled if shift is None else relax.op.add(scaled, shift)
    return relax.Tuple([emit(result), mean, inverse])


def _widened(builder: Any, value: Any) -> Any:
    """The value in a type that sums are computed in."""
    return cast(builder, value, "float32") if str(value.ty.dtype) in {"float16", "bfloat16"} else value
