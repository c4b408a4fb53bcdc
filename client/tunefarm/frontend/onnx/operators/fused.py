"""Operators of com.microsoft that onnxruntime's optimizers write in place of several standard ones."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from tunefarm.frontend.onnx.operators.attention.multi_head_attention import attention_of_product
from tunefarm.frontend.onnx.operators.elementwise import swish
from tunefarm.frontend.onnx.operators.quantized import dynamic_quantize
from tunefarm.frontend.onnx.operators.spatial import conv

_QUICK_GELU: Final = 1.702
"""The factor with which a sigmoid is nearest to GELU's."""


def fused_matmul(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """FusedMatMul, whose operands may be transposed first, and TransposeMatMul, its older name."""
    del scope
    operands = [_transposed(builder, data, name, attributes) for name, data in zip("AB", list(inputs)[:2], strict=True)]
    product, factor = builder.emit(relax.op.matmul(*operands)), float(attributes.get("alpha", 1.0))
    return product if factor == 1 else relax.op.multiply(product, relax.const(factor, str(product.ty.dtype)))


def _transposed(builder: Any, data: Any, name: str, attributes: Mapping[str, Any]) -> Any:
    """A matrix whose rows were the first axis, before those of a batch, or whose last two axes change places."""
    rank = len(data.ty.shape)
    of_batch = attributes.get(f"transBatch{name}", 0)
    order = [*range(1, rank - 1), 0, rank - 1] if of_batch else list(range(rank))
    if attributes.get(f"trans{name}", 0) and rank > 1:
        order[-2:] = order[:-3:-1]
    return data if order == list(range(rank)) else builder.emit(relax.op.permute_dims(data, order))


def fused_gemm(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """FusedGemm: Gemm, then an activation with numbers of its own."""
    given = dict(attributes)
    operator = given.pop("activation", b"")
    numbers = [given.pop(f"activation_{name}", None) for name in ("alpha", "beta", "gamma")]
    numbers.append(given.pop("leaky_relu_alpha", None))
    result = onnx_frontend.Gemm.get_converter(13)(builder, inputs, given, scope)
    return _activated(builder, result, operator, [each for each in numbers if each is not None])


def fused_conv(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """FusedConv: Conv, then a sum with a tensor of the shape of the result, then an activation."""
    given = dict(attributes)
    operator, numbers = given.pop("activation", b""), given.pop("activation_params", ())
    data, weights, bias, added = [*inputs, None, None][:4]
    result = conv(builder, onnx_frontend.onnx_input([data, weights, bias]), given, scope)
    if added is not None:
        result = relax.op.add(builder.emit(result), added)
    return _activated(builder, result, operator, list(numbers))


def quick_gelu(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """``x * sigmoid(alpha * x)``."""
    return swish(builder, inputs, {"alpha": _QUICK_GELU, **attributes}, scope)


def quantized_matmul(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """DynamicQuantizeMatMul: a product of integers that stand for the data and of weights with scales."""
    data, weights, scale, zero_point, bias = [*inputs, None, None][:5]
    integers, of_data, zero = dynamic_quantize(builder, (data,), attributes, scope)
    operands = (integers, weights, of_data, scale, zero, zero_point, bias)
    return scaled_matmul(builder, operands, attributes, scope)


def scaled_matmul(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """MatMulIntegerToFloat: a product of integers, times the scales of both operands."""
    one, other, of_one, of_other, zero_of_one, zero_of_other, bias = [*inputs, *[None] * 3][:7]
    multiply = onnx_frontend.MatMulInteger.get_converter(10)
    operands = onnx_frontend.onnx_input([one, other, zero_of_one, zero_of_other])
    integers = builder.emit(multiply(builder, operands, attributes, scope))
    scales = builder.emit(relax.op.multiply(of_one, of_other))
    result = relax.op.multiply(builder.emit(relax.op.astype(integers, str(of_one.ty.dtype))), scales)
    return result if bias is None else relax.op.add(builder.emit(result), bias)


def quantized_attention(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """QAttention: Attention whose first product is one of integers."""
    given = [*inputs, *[None] * 9][:9]
    data, weights, bias, of_data, of_weights, padding, zero_of_data, zero_of_weights, past = given
    operands = (data, weights, of_data, of_weights, zero_of_data, zero_of_weights)
    product = builder.emit(scaled_matmul(builder, operands, {}, scope))
    return attention_of_product(builder, (product, bias, padding, past, None), attributes)


def _activated(builder: Any, result: Any, operator: bytes, numbers: list[float]) -> Any:
    """What an activation, which ONNX names, makes of a result."""
    name = operator.decode()
    if not name:
        return result
    if name not in _ACTIVATIONS:
        raise ValueError(f"the activation {name} has no conversion")
    return _ACTIVATIONS[name](builder.emit(result), *numbers)


def _hard_sigmoid(x: Any, slope: float = 0.2, shift: float = 0.5) -> Any:
    dtype = str(x.ty.dtype)
    line = relax.op.add(relax.op.multiply(x, relax.const(slope, dtype)), relax.const(shift, dtype))
    return relax.op.clip(line, 0, 1)


_ACTIVATIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "Clip": lambda x, low=-np.inf, high=np.inf: relax.op.clip(x, low, high),
        "HardSigmoid": _hard_sigmoid,
        "HardSwish": lambda x, *_: relax.op.multiply(x, _hard_sigmoid(x, 1 / 6, 0.5)),
        "LeakyRelu": lambda x, alpha=0.01: relax.op.nn.leakyrelu(x, alpha),
        "Relu": relax.op.nn.relu,
        "Sigmoid": relax.op.sigmoid,
        "Tanh": relax.op.tanh,
    }
)
