"""Quantised operators that TVM's ONNX importer lacks, as float operators between dequantize and quantize."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend

from tunefarm.frontend.onnx.operators.constants import constant
from tunefarm.frontend.onnx.operators.spatial import average_pool
from tunefarm.frontend.onnx.operators.weight_only import gather_of_blocks, matmul_of_bits, with_blocks

_Converter = Callable[[Any, Any, Mapping[str, Any], Any], Any]


def _float(builder: Any, operands: Any, axis: int = 0) -> Any:
    """The numbers that a quantised value, its scale and its zero point stand for."""
    value, scale, zero_point = operands
    zero_point = constant(np.zeros((), str(value.ty.dtype))) if zero_point is None else zero_point
    return builder.emit(relax.op.dequantize(value, _flat(scale), _flat(zero_point), axis=axis))


def _quantised(builder: Any, value: Any, scale: Any, zero_point: Any) -> Any:
    zero_point = constant(np.zeros((), np.uint8)) if zero_point is None else zero_point
    dtype = str(zero_point.ty.dtype)
    return builder.emit(
        relax.op.quantize(builder.normalize(value), _flat(scale), _flat(zero_point), axis=0, out_dtype=dtype)
    )


def _flat(value: Any) -> Any:
    """A scale of one element, whatever its shape, as a scalar: TVM takes it for one of each channel otherwise."""
    array = value.value.numpy()
    return constant(array.reshape(()) if array.size == 1 else array.reshape(-1))


def with_scalar_scales(converter: _Converter) -> _Converter:
    """A converter that gets scales and zero points of one element as scalars, whatever their shape."""

    def convert(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
        scales = [_flat(each) if isinstance(each, GenericConst) else each for each in inputs[1:3]]
        operands = onnx_frontend.onnx_input([inputs[0], *scales])
        return converter(builder, operands, attributes, scope)

    return convert


def _linear_conv(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    x, w = _float(builder, inputs[0:3]), _float(builder, inputs[3:6], axis=0)
    bias = None
    if inputs[8] is not None:
        scale = constant(np.atleast_1d(inputs[1].value.numpy() * inputs[4].value.numpy()).astype(np.float32))
        bias = builder.emit(relax.op.multiply(relax.op.astype(inputs[8], "float32"), scale))
    convolution = onnx_frontend.Conv.get_converter(11)
    operands = onnx_frontend.onnx_input([x, w, bias])
    return _quantised(builder, convolution(builder, operands, dict(attributes), scope), *inputs[6:8])


def _linear_matmul(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    del attributes, scope
    a = _float(builder, inputs[0:3], axis=max(len(inputs[0].ty.shape) - 2, 0))
    b = _float(builder, inputs[3:6], axis=len(inputs[3].ty.shape) - 1)
    return _quantised(builder, relax.op.matmul(a, b), *inputs[6:8])


def _linear_gemm(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    del scope
    if attributes.get("transA", 0):
        raise ValueError("QGemm with transA has no conversion")
    transposed = bool(attributes.get("transB", 0))
    a, b = _float(builder, inputs[0:3]), _float(builder, inputs[3:6], axis=0 if transposed else 1)
    result = relax.op.matmul(a, builder.emit(relax.op.permute_dims(b)) if transposed else b)
    alpha = np.float32(attributes.get("alpha", 1.0))
    if alpha != 1:
        result = relax.op.multiply(result, constant(alpha))
    if inputs[6] is not None:
        scale = constant(np.atleast_1d(alpha * inputs[1].value.numpy() * inputs[4].value.numpy()).astype(np.float32))
        result = relax.op.add(result, relax.op.multiply(relax.op.astype(inputs[6], "float32"), scale))
    return _quantised(builder, result, *inputs[7:9]) if inputs[7] is not None else result


def _linear_binary(operator: Callable[[Any, Any], Any]) -> _Converter:
    def convert(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
        del attributes, scope
        result = operator(_float(builder, inputs[0:3]), _float(builder, inputs[3:6]))
        return _quantised(builder, result, *inputs[6:8])

    return convert


def _linear_unary(operator: Callable[[Any, Mapping[str, Any]], Any]) -> _Converter:
    def convert(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
        del scope
        return _quantised(builder, operator(_float(builder, inputs[0:3]), attributes), *inputs[3:5])

    return convert


def _linear_global_pool(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    del scope
    rank = len(inputs[0].ty.shape)
    axes = list(range(1, rank - 1)) if attributes.get("channels_last", 0) else list(range(2, rank))
    return _quantised(builder, relax.op.mean(_float(builder, inputs[0:3]), axes, keepdims=True), *inputs[3:5])


def _linear_average_pool(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    attributes = dict(attributes)
    if attributes.pop("channels_last", 0):
        raise ValueError("QLinearAveragePool with the channels last has no conversion")
    pooled = average_pool(builder, onnx_frontend.onnx_input([_float(builder, inputs[0:3])]), attributes, scope)
    return _quantised(builder, pooled, *inputs[3:5])


def _linear_where(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    del attributes, scope
    chosen = relax.op.where(inputs[0], _float(builder, inputs[1:4]), _float(builder, inputs[4:7]))
    return _quantised(builder, chosen, *inputs[7:9])


def _linear_concat(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    del scope
    parts = [_float(builder, inputs[first : first + 3]) for first in range(2, len(inputs), 3)]
    return _quantised(builder, relax.op.concat(parts, axis=attributes["axis"]), *inputs[0:2])


def dynamic_quantize(builder: Any, inputs: Any, _attributes: Mapping[str, Any], _scope: Any) -> Any:
    """DynamicQuantizeLinear: bytes in steps that follow from the range of the data; of 1 if all are zero."""
    data, emit = inputs[0], builder.emit
    zero, one, steps = (relax.const(each, str(data.ty.dtype)) for each in (0, 1, 255))
    lowest, highest = (
        emit(bound(zero, emit(extreme(data))))
        for bound, extreme in ((relax.op.minimum, relax.op.min), (relax.op.maximum, relax.op.max))
    )
    extent = emit(relax.op.subtract(highest, lowest))
    scale = emit(relax.op.where(emit(relax.op.equal(extent, zero)), one, emit(relax.op.divide(extent, steps))))
    nearest = emit(relax.op.round(emit(relax.op.divide(emit(relax.op.subtract(zero, lowest)), scale))))
    zero_point = emit(relax.op.astype(emit(relax.op.clip(nearest, 0, 255)), "uint8"))
    return relax.Tuple([emit(relax.op.quantize(data, scale, zero_point, axis=0, out_dtype="uint8")), scale, zero_point])


def _integer_conv(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """The zero points go first, so that padding means zero."""
    operands = []
    for value, zero_point in ((inputs[0], inputs[2]), (inputs[1], inputs[3])):
        wide = builder.emit(relax.op.astype(value, "int32"))
        if zero_point is not None:
            offset = builder.emit(relax.op.astype(zero_point, "int32"))
            if len(offset.ty.shape) > 0:  # one for each channel
                offset = builder.emit(relax.op.reshape(offset, (-1, *[1] * (len(wide.ty.shape) - 1))))
            wide = builder.emit(relax.op.subtract(wide, offset))
        operands.append(wide)
    convolution = onnx_frontend.Conv.get_converter(11)
    return convolution(builder, onnx_frontend.onnx_input([*operands, None]), dict(attributes), scope)


QUANTISED: Final[Mapping[str, _Converter]] = MappingProxyType({
    "QLinearConv": _linear_conv, "QLinearMatMul": _linear_matmul, "ConvInteger": _integer_conv,
    "DynamicQuantizeLinear": dynamic_quantize,
})  # fmt: skip
QUANTISED_OF_MICROSOFT: Final[Mapping[str, _Converter]] = MappingProxyType(
    {
        "DequantizeLinear": with_blocks(with_scalar_scales(onnx_frontend.DequantizeLinear.get_converter(19))),
        "GatherBlockQuantized": gather_of_blocks,
        "MatMulNBits": matmul_of_bits,
        "QGemm": _linear_gemm,
        "QuantizeLinear": with_scalar_scales(onnx_frontend.QuantizeLinear.get_converter(19)),
        "QLinearAdd": _linear_binary(relax.op.add),
        "QLinearAveragePool": _linear_average_pool,
        "QLinearConcat": _linear_concat,
        "QLinearGlobalAveragePool": _linear_global_pool,
        "QLinearLeakyRelu": _linear_unary(lambda x, given: relax.op.nn.leakyrelu(x, given.get("alpha", 0.01))),
        "QLinearMul": _linear_binary(relax.op.multiply),
        "QLinearSigmoid": _linear_unary(lambda x, _: relax.op.sigmoid(x)),
        "QLinearWhere": _linear_where,
        "QLinearSoftmax": _linear_unary(lambda x, given: relax.op.nn.softmax(x, given.get("axis", -1))),
    }
)
