"""Quantization and dequantization by numbers, by tensors and by channels."""

from typing import Any, Final

import torch
from torch import fx
from tvm import relax

_FULL_RANGES: Final = frozenset({(torch.int8, -128, 127), (torch.uint8, 0, 255)})


def quantize(node: fx.Node, importer: Any, axis: int, first: int) -> Any:
    """Quantization of channels of ``axis``; bounds and type are arguments from number ``first`` on."""
    low, high, kind = node.args[first : first + 3]
    data = importer.env[node.args[0]]
    scale, zero_point = _scale(node.args[1], importer), _zero_point(node.args[2], importer)
    dtype = str(kind).removeprefix("torch.")
    emit = importer.block_builder.emit
    if (kind, low, high) in _FULL_RANGES:
        return emit(relax.op.quantize(data, scale, zero_point, axis, dtype))
    shape = [1] * data.ty.ndim
    shape[axis] = -1
    shifted = relax.op.add(
        relax.op.round(relax.op.divide(data, relax.op.reshape(scale, shape))),
        relax.op.astype(relax.op.reshape(zero_point, shape), str(data.ty.dtype)),
    )
    return emit(relax.op.astype(relax.op.clip(shifted, low, high), dtype))


def dequantize(node: fx.Node, importer: Any, axis: int) -> Any:
    """The numbers that quantized elements stand for."""
    scale, zero_point = _scale(node.args[1], importer), _zero_point(node.args[2], importer)
    return importer.block_builder.emit(
        relax.op.dequantize(importer.env[node.args[0]], scale, zero_point, axis, "float32")
    )


def _scale(value: Any, importer: Any) -> Any:
    return _parameter(value, importer, "float32")


def _zero_point(value: Any, importer: Any) -> Any:
    return _parameter(value, importer, "int32")


def _parameter(value: Any, importer: Any, dtype: str) -> Any:
    """A scale or a zero point: a number, or a tensor with one for each channel."""
    if not isinstance(value, fx.Node):
        return relax.const(value, dtype)
    tensor = importer.env[value]
    if str(tensor.ty.dtype) != dtype:
        tensor = importer.block_builder.emit(relax.op.astype(tensor, dtype))
    return tensor
