"""Quantization and dequantization by numbers, by tensors, by channels and by rows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import fx
from torch.ao.quantization.fx import _decomposed
from tvm import relax

from tunefarm.frontend.pytorch.operators.nodes import as_kind, value_of

_MIDDLE_OF_BYTES: Final = 128
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


def _of_range(
    data: torch.Tensor, low: int, high: int, smallest: float, _dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """The scale and the zero point with which ``low`` to ``high`` hold the range of the data, and zero."""
    lowest, highest = data.amin().float().clamp(max=0), data.amax().float().clamp(min=0)
    scale = ((highest - lowest) / float(high - low)).clamp(min=smallest)
    zero_point = (low - torch.round(lowest / scale)).clamp(low, high)
    return scale.double().reshape(1), zero_point.to(torch.int64).reshape(1)


def _of_symmetric_range(
    data: torch.Tensor, low: int, high: int, smallest: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, with zero in the middle."""
    largest = data.abs().amax().float()
    scale = (largest / (float(high - low) / 2)).clamp(min=smallest)
    middle = _MIDDLE_OF_BYTES if dtype == torch.uint8 else 0
    return scale.double().reshape(1), torch.full((1,), middle, dtype=torch.int64)


_OPERATORS: Final = torch.ops.quantized_decomposed
DECOMPOSITIONS: Final[Mapping[Any, Any]] = MappingProxyType(
    {
        _OPERATORS.choose_qparams.tensor: _of_range,
        _OPERATORS.choose_qparams_symmetric.tensor: _of_symmetric_range,
        **{
            getattr(_OPERATORS, name).default: getattr(_decomposed, name)
            for name in (
                "choose_qparams_per_token",
                "choose_qparams_per_token_asymmetric",
                "quantize_per_token",
                "dequantize_per_token",
            )
        },
    }
)
"""Torch chooses scales of tensors by conditions on their contents, and those of rows by operators of its own."""


def _scale(value: Any, importer: Any) -> Any:
    return _parameter(value, importer, "float32")


def _zero_point(value: Any, importer: Any) -> Any:
    return _parameter(value, importer, "int32")


def _parameter(value: Any, importer: Any, dtype: str) -> Any:
    """A scale or a zero point: a number, or a tensor with one for each channel."""
    if not isinstance(value, fx.Node):
        return relax.const(value, dtype)
    tensor, emit = importer.env[value], importer.block_builder.emit
    if value_of(value).numel() == 1 and tensor.ty.ndim:
        tensor = emit(relax.op.reshape(tensor, []))
    return as_kind(dtype, tensor, emit)
