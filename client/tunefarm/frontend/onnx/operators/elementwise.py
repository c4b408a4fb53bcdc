"""Elementwise operators, Gather and OneHot, whose converters in TVM are missing, wrong for some types, or slow."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from onnx import helper, numpy_helper
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend

from tunefarm.frontend.expressions.along_axis import scattered
from tunefarm.frontend.expressions.bits import reinterpreted
from tunefarm.frontend.expressions.shifts import shifted_left, shifted_right
from tunefarm.frontend.onnx.operators.constants import cast, constant

_REDUCTIONS: Final = MappingProxyType({b"none": "update", b"add": "add", b"mul": "mul", b"max": "max", b"min": "min"})


def clip(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """One ``clip`` where both bounds are numbers: TVM's converter gives two functions that nothing fuses with."""
    bounds = inputs[1], inputs[2]
    if not all(bound is None or isinstance(bound, GenericConst) for bound in bounds):
        return onnx_frontend.Clip.get_converter(13)(builder, inputs, attributes, scope)
    low, high = (None if bound is None else float(bound.value.numpy().reshape(())) for bound in bounds)
    dtype = np.dtype(str(inputs[0].ty.dtype))
    if dtype.kind == "f":
        low, high = (-np.inf if low is None else low), (np.inf if high is None else high)
    else:
        low, high = (np.iinfo(dtype).min if low is None else low), (np.iinfo(dtype).max if high is None else high)
    if low > high:
        return relax.op.full_like(inputs[0], relax.const(high, str(dtype)))
    if dtype.kind == "f" and low == 0 and high == np.inf:
        return relax.op.nn.relu(inputs[0])
    return relax.op.clip(inputs[0], low, high)


def literal(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Constant in the body of an If, by any of its attributes: TVM's converter takes a tensor only."""
    del builder, inputs, scope
    if "value" in attributes:
        return constant(numpy_helper.to_array(attributes["value"]))
    for name, dtype in (("value_float", np.float32), ("value_int", np.int64)):
        for key in (name, f"{name}s"):
            if key in attributes:
                return constant(np.asarray(attributes[key], dtype))
    raise ValueError("its value is not a number")


def elu(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """In the type of the input: TVM's converter has constants of 32 bits only."""
    del builder, scope
    x, dtype = inputs[0], str(inputs[0].ty.dtype)
    negative = relax.op.subtract(relax.op.exp(relax.op.minimum(x, relax.const(0, dtype))), relax.const(1, dtype))
    scaled = relax.op.multiply(relax.const(attributes.get("alpha", 1.0), dtype), negative)
    return relax.op.add(relax.op.nn.relu(x), scaled)


def selu(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """In the type of the input, as elu."""
    gamma = attributes.get("gamma", 1.0507010221481323)
    alpha = attributes.get("alpha", 1.6732631921768188)
    result = builder.emit(elu(builder, inputs, {"alpha": alpha}, scope))
    return relax.op.multiply(relax.const(gamma, str(inputs[0].ty.dtype)), result)


def with_truth_values_as_bytes(converter: Any) -> Any:
    """A converter that gets bytes in place of truth values: TVM knows no largest and smallest of these."""

    def convert(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
        if str(inputs[0].ty.dtype) != "bool":
            return converter(builder, inputs, attributes, scope)
        bytes_ = [builder.emit(relax.op.astype(inputs[0], "int8")), *list(inputs)[1:]]
        result = converter(builder, onnx_frontend.onnx_input(bytes_), attributes, scope)
        return relax.op.astype(builder.emit(result), "bool")

    return convert


def einsum(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """As Relax's operator, so that halves are summed in float32: TVM's converter gives a function."""
    del builder, scope
    return relax.op.einsum(list(inputs), attributes["equation"].decode())


def thresholded_relu(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """In the type of the input, as elu; NaN and infinity below the threshold give 0."""
    del builder, scope
    x, dtype = inputs[0], str(inputs[0].ty.dtype)
    is_above = relax.op.greater(x, relax.const(attributes.get("alpha", 1.0), dtype))
    return relax.op.where(is_above, x, relax.const(0, dtype))


def top_k(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Sorted also where it need not be."""
    return onnx_frontend.TopK.get_converter(1 if "k" in attributes else 11)(
        builder, inputs, {**attributes, "sorted": 1}, scope
    )


def scatter_elements(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Also for fewer indices than the data has elements along the other axes."""
    del scope
    reduction = _REDUCTIONS[attributes.get("reduction", b"none")]
    data, positions, values = inputs[:3]
    return scattered(data, positions, values, attributes.get("axis", 0), reduction, builder.emit)


def is_infinite(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """With regard to the sign, which TVM's converter ignores."""
    del builder, scope
    x, zero = inputs[0], relax.const(0, str(inputs[0].ty.dtype))
    found = relax.op.isinf(x)
    if not attributes.get("detect_negative", 1):
        found = relax.op.logical_and(found, relax.op.greater(x, zero))
    if not attributes.get("detect_positive", 1):
        found = relax.op.logical_and(found, relax.op.less(x, zero))
    return found


def swish(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """``x * sigmoid(alpha * x)``."""
    del scope
    x, alpha = inputs[0], relax.const(attributes.get("alpha", 1.0), str(inputs[0].ty.dtype))
    return relax.op.multiply(x, builder.emit(relax.op.sigmoid(relax.op.multiply(x, alpha))))


def power(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """In the type of the base: TVM has no power of integers and none of two types. Small exponents are products."""
    del attributes, scope
    x, exponent = inputs[0], inputs[1]
    dtype = np.dtype(str(x.ty.dtype))
    if isinstance(exponent, GenericConst) and exponent.value.numpy().size == 1:
        number = float(exponent.value.numpy().reshape(()))
        rank = len(exponent.value.numpy().shape)
        if rank <= len(x.ty.shape) and number in {1.0, 2.0, 3.0}:
            square = x if number == 1 else builder.emit(relax.op.multiply(x, x))
            return relax.op.multiply(square, x) if number == 3 else square
        if rank <= len(x.ty.shape) and number == 0.5 and dtype.kind == "f":
            return relax.op.sqrt(x)
    wide = str(dtype) if dtype.kind == "f" else "float64"
    result = relax.op.power(cast(builder, x, wide), cast(builder, exponent, wide))
    if wide == str(dtype):
        return result
    # Powers of an integer exponent are integers up to an error of float64; others are cut off.
    rounded = relax.op.trunc if np.dtype(str(exponent.ty.dtype)).kind == "f" else relax.op.round
    return relax.op.astype(builder.emit(rounded(result)), str(dtype))


def one_hot(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """With a depth of any type and negative indices, which TVM's converter does not take."""
    del scope
    if not all(isinstance(each, GenericConst) for each in inputs[1:3]):
        raise ValueError("its depth or its values depend on the input of the model")
    depth = int(inputs[1].value.numpy().reshape(()))
    off, on = inputs[2].value.numpy()
    classes = constant(np.arange(depth, dtype=np.int64))
    rank = len(inputs[0].ty.shape) + 1
    axis = attributes.get("axis", -1) % rank
    indices = cast(builder, inputs[0], "int64")
    negative = relax.op.less(indices, relax.const(0, "int64"))
    indices = builder.emit(relax.op.where(negative, relax.op.add(indices, relax.const(depth, "int64")), indices))
    shape = tuple(depth if each == axis else 1 for each in range(rank))
    hits = relax.op.equal(relax.op.expand_dims(indices, axis), relax.op.reshape(classes, shape))
    return relax.op.where(builder.emit(hits), constant(on), constant(off))


def gather(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Gather; an index out of bounds, which ONNX forbids, gives the nearest element and reads nothing else."""
    del scope
    data, indices = inputs[0], inputs[1]
    axis = attributes.get("axis", 0) % len(data.ty.shape)
    size = int(data.ty.shape[axis])
    if isinstance(indices, GenericConst):
        numbers = indices.value.numpy()
        if numbers.size and not -size <= numbers.min() <= numbers.max() < size:
            raise ValueError(f"an index is out of bounds of axis {axis}, which has {size} elements")
        numbers = np.where(numbers < 0, numbers + size, numbers).astype(numbers.dtype)
        return relax.op.take(data, constant(numbers), axis, mode="clip")
    dtype = str(indices.ty.dtype)
    counted = relax.op.add(indices, relax.const(size, dtype))
    indices = builder.emit(relax.op.where(relax.op.less(indices, relax.const(0, dtype)), counted, indices))
    return relax.op.take(data, indices, axis, mode="clip")


def shift(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """BitShift, by more bits than there are too, which TVM leaves to the processor."""
    del scope
    shifted = shifted_left if attributes["direction"] == b"LEFT" else shifted_right
    return shifted(inputs[0], inputs[1], builder.emit)


def remainder(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Mod: of floats with the sign of the divisor, also for an infinite one, where TVM's quotient is not a number."""
    x, divisor = inputs[0], inputs[1]
    if attributes.get("fmod", 0) or "float" not in str(x.ty.dtype):
        return onnx_frontend.Mod.get_converter(10)(builder, inputs, attributes, scope)
    found, zero = builder.emit(relax.op.mod(x, divisor)), relax.const(0, str(x.ty.dtype))
    has_other_sign = relax.op.less(builder.emit(relax.op.multiply(relax.op.sign(found), relax.op.sign(divisor))), zero)
    return relax.op.where(has_other_sign, builder.emit(relax.op.add(found, divisor)), found)


def same_bits(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """BitCast, between types of one width."""
    del scope
    dtype = str(helper.tensor_dtype_to_np_dtype(attributes["to"]))
    if "bool" in {dtype, str(inputs[0].ty.dtype)}:
        raise ValueError("it reads or gives truth values as bits")
    return builder.emit_te(reinterpreted, inputs[0], dtype, primfunc_name_hint="reinterpret")


def dropout(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Nothing is dropped, and the mask says so. TVM's converter gives the same in training."""
    del builder, scope
    ratio, training = (inputs[number] if len(inputs) > number else None for number in (1, 2))
    if training is not None:
        numbers = [each.value.numpy() if isinstance(each, GenericConst) else None for each in (training, ratio)]
        if numbers[0] is None or (numbers[0].any() and (ratio is None or numbers[1] is None or numbers[1].any())):
            raise ValueError("it drops elements: export the model for inference")
    if attributes["tvm_custom"]["num_outputs"] == 1:
        return inputs[0]
    return relax.Tuple([inputs[0], relax.const(np.ones([int(size) for size in inputs[0].ty.shape], bool), "bool")])
