"""Fourier transforms, whose complex numbers ONNX has as two real ones along the last axis."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst

from tunefarm.frontend.expressions.along_axis import extents
from tunefarm.frontend.expressions.complex_numbers import ComplexParts, as_pairs, of_pairs
from tunefarm.frontend.expressions.fourier import from_spectrum, spectrum, transformed
from tunefarm.frontend.onnx.operators.constants import constant

_COMPLEX = 2
"""Elements of the last axis of complex numbers; real ones have one."""


def transform(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """DFT, whose axis is an attribute before version 20."""
    del scope
    return _transform(builder, inputs, int(attributes.get("axis", 1)), attributes)


def transform_of_axis(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """DFT since version 20, whose axis is an input."""
    del scope
    axis = _number(_optional(inputs, 2), "axis")
    return _transform(builder, inputs, -2 if axis is None else axis, attributes)


def spectrogram(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """STFT: the transforms of windows of a signal."""
    del scope
    emit, signal, window = builder.emit, inputs[0], _optional(inputs, 2)
    step = _number(inputs[1], "frame_step")
    length = _number(_optional(inputs, 3), "frame_length") or int(window.ty.shape[0])
    if step is None or extents(signal)[-1] == _COMPLEX:
        raise ValueError("its signal is complex, or frame_step is missing")
    begins = np.arange((extents(signal)[1] - length) // step + 1) * step
    data = emit(relax.op.squeeze(signal, [-1]))
    frames = emit(relax.op.take(data, constant(begins[:, None] + np.arange(length)), axis=1))
    if window is not None:
        frames = emit(relax.op.multiply(frames, window))
    is_half = bool(attributes.get("onesided", 1))
    return as_pairs(spectrum(frames, -1, 1.0, emit, is_half=is_half), emit)


def _transform(builder: Any, inputs: Any, axis: int, attributes: Mapping[str, Any]) -> Any:
    emit, data = builder.emit, inputs[0]
    axis %= data.ty.ndim
    is_half, is_inverse = bool(attributes.get("onesided", 0)), bool(attributes.get("inverse", 0))
    length = _number(_optional(inputs, 1), "dft_length")
    is_complex = extents(data)[-1] == _COMPLEX
    if is_half and is_inverse and is_complex:
        extent = length or 2 * (extents(data)[axis] - 1)
        real = from_spectrum(of_pairs(data, emit), axis, extent, 1.0 / extent, emit)
        return relax.op.expand_dims(real, -1)
    extent = length or extents(data)[axis]
    data = _of_extent(data, axis, extent, emit)
    if not is_complex and not is_inverse:
        real = emit(relax.op.squeeze(data, [-1]))
        return as_pairs(spectrum(real, axis, 1.0, emit, is_half=is_half), emit)
    if is_half:
        raise ValueError("onesided takes real numbers, or the frequencies of some for the inverse")
    value = of_pairs(data, emit) if is_complex else ComplexParts(emit(relax.op.squeeze(data, [-1])), None)
    scale = 1.0 / extent if is_inverse else 1.0
    return as_pairs(transformed(value, axis, scale, emit, is_forward=not is_inverse), emit)


def _of_extent(data: Any, axis: int, extent: int, emit: Any) -> Any:
    """The beginning of an axis, or the axis with zeros behind it."""
    given = extents(data)[axis]
    if extent < given:
        return emit(relax.op.strided_slice(data, [axis], [0], [extent]))
    widths = [(0, extent - given) if each == axis else (0, 0) for each in range(data.ty.ndim)]
    return data if extent == given else emit(relax.op.nn.pad(data, [width for pair in widths for width in pair]))


def _optional(inputs: Sequence[Any], number: int) -> Any:
    return inputs[number] if len(inputs) > number else None


def _number(given: Any, name: str) -> int | None:
    if given is None:
        return None
    if not isinstance(given, GenericConst):
        raise ValueError(f"its {name} is not a constant")
    return int(given.value.numpy().reshape(()))
