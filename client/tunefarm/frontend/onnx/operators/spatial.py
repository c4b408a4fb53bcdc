"""Convolutions, windows and regions, where TVM has no converter, or one that is slow or ignores attributes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from tunefarm.frontend.expressions.along_axis import extents
from tunefarm.frontend.expressions.deformable import MovedWindows, deformable_convolution
from tunefarm.frontend.expressions.windows import Windows, positions_of_maxima
from tunefarm.frontend.onnx.operators.constants import numbers_of

_SAME: Final = frozenset({b"SAME_UPPER", b"SAME_LOWER"})
_MAX_AXES_TRANSPOSED: Final = 2
"""Of convolutions whose transposed ones TVM computes in groups."""


def deformable_conv(builder: Any, inputs: Any, attributes: Mapping[str, Any], _scope: Any) -> Any:
    """DeformConv: a convolution that reads between pixels."""
    x, weight, offset, bias, mask = [*inputs, None, None][:5]
    windows = MovedWindows(
        kernel=extents(weight)[2:],
        strides=attributes.get("strides", (1, 1)),
        pads=attributes.get("pads", (0,) * 4)[:2],
        dilations=attributes.get("dilations", (1, 1)),
        parts=attributes.get("offset_group", 1),
    )
    return deformable_convolution((x, weight, offset, bias, mask), windows, attributes.get("group", 1), builder)


def conv(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """SAME as padding of the convolution: TVM's converter pads in a function of its own."""
    attributes = dict(attributes)
    mode = attributes.pop("auto_pad", b"NOTSET")
    spatial = len(inputs[0].ty.shape) - 2
    if mode in _SAME:
        kernel = [int(extent) for extent in list(inputs[1].ty.shape)[2:]]
        attributes["pads"] = _same_pads(inputs[0], kernel, attributes, mode)
    elif mode == b"VALID":
        attributes["pads"] = (0,) * (2 * spatial)
    return onnx_frontend.Conv.get_converter(11)(builder, inputs, attributes, scope)


def average_pool(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """The means of windows, with SAME as numbers."""
    return onnx_frontend.AveragePool.get_converter(1)(builder, inputs, _padded(inputs[0], attributes), scope)


def max_pool(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """With the positions of the maxima among all elements, where they are read: TVM's converter has none."""
    data, given = inputs[0], _padded(inputs[0], attributes)
    pooled = builder.emit(onnx_frontend.MaxPool.get_converter(1)(builder, inputs, given, scope))
    if given["tvm_custom"]["num_outputs"] == 1:
        return pooled
    axes = len(given["kernel_shape"])
    windows = Windows(
        kernel=given["kernel_shape"],
        strides=given.get("strides", (1,) * axes),
        padding=given.get("pads", (0,) * axes)[:axes],
        dilation=given.get("dilations", (1,) * axes),
    )
    is_column_major = given.get("storage_order", 0) == 1
    counts, (batch, channels, *sizes) = extents(pooled)[-axes:], extents(data)
    within = positions_of_maxima(data, counts, windows, builder.emit, is_column_major=is_column_major)
    images = np.arange(batch * channels).reshape(batch, channels, *[1] * axes) * math.prod(sizes)
    return relax.Tuple([pooled, builder.emit(relax.op.add(within, relax.const(images, "int64")))])


def max_unpool(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Each element at its position, and zeros elsewhere; TVM's converter mixes the padding of different axes."""
    del scope
    data, kernel, emit = inputs[0], attributes["kernel_shape"], builder.emit
    axes, dtype = len(kernel), str(data.ty.dtype)
    strides, pads = attributes.get("strides", (1,) * axes), attributes.get("pads", (0,) * (2 * axes))
    covered = extents(data)
    for axis in range(axes):
        padding = pads[axis] + pads[axes + axis]
        covered[2 + axis] = (covered[2 + axis] - 1) * strides[axis] + kernel[axis] - padding
    shape = numbers_of(inputs[2])
    if shape is not None and covered != [int(size) for size in shape]:
        raise ValueError(
            f"its output_shape is not the {covered} of its windows: ONNX and onnxruntime fill it differently"
        )
    flat, positions = (emit(relax.op.reshape(each, (-1,))) for each in inputs[:2])
    zeros = emit(relax.op.zeros((math.prod(covered),), dtype))
    return relax.op.reshape(emit(relax.op.scatter_elements(zeros, positions, flat, 0)), covered)


def _padded(data: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a pool, with SAME and VALID as numbers.

    TVM's converter pads by less than nothing where windows are apart, or rounds sizes down.
    """
    mode = attributes.get("auto_pad", b"NOTSET")
    if mode == b"VALID":
        return {**attributes, "pads": (0,) * (2 * len(attributes["kernel_shape"])), "auto_pad": b"NOTSET"}
    if mode not in _SAME:
        return dict(attributes)
    pads = _same_pads(data, attributes["kernel_shape"], attributes, mode)
    return {**attributes, "pads": pads, "auto_pad": b"NOTSET", "ceil_mode": 0}


def _same_pads(data: Any, kernel: Sequence[int], attributes: Mapping[str, Any], mode: bytes) -> tuple[int, ...]:
    """The padding at the begin of each axis, then that at its end, for as many windows as fit the strides."""
    spatial = len(kernel)
    strides = attributes.get("strides", (1,) * spatial)
    dilations = attributes.get("dilations", (1,) * spatial)
    totals = []
    for axis in range(spatial):
        size, reach = int(data.ty.shape[2 + axis]), (kernel[axis] - 1) * dilations[axis] + 1
        totals.append(max((-(-size // strides[axis]) - 1) * strides[axis] + reach - size, 0))
    return _halved(totals, mode)


def _halved(totals: Sequence[int], mode: bytes) -> tuple[int, ...]:
    """The padding of each axis at both ends; the larger half is at the end for SAME_UPPER, else at the begin."""
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (*small, *large) if mode == b"SAME_UPPER" else (*large, *small)


def roi_align(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Half a pixel of the feature map; TVM's converter shifts by half a pixel of the image."""
    mode = attributes.get("coordinate_transformation_mode", b"half_pixel")
    scale = attributes.get("spatial_scale", 1.0)
    if attributes.get("mode", b"avg") != b"avg":
        raise ValueError("it takes maxima, of which ONNX and its implementations have different ones")
    operands = list(inputs)
    if mode == b"half_pixel" and scale != 1:
        shift = relax.const(np.full(4, 0.5 - 0.5 / scale, str(inputs[1].ty.dtype)))
        operands[1] = builder.emit(relax.op.add(inputs[1], shift))
    return onnx_frontend.RoiAlign.get_converter(16)(builder, onnx_frontend.onnx_input(operands), attributes, scope)


def conv_transpose(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """The shape of the output as padding: TVM's converter ignores it unless the padding is SAME."""
    attributes = dict(attributes)
    shape = attributes.pop("output_shape", None)
    if shape is not None:
        mode = attributes.pop("auto_pad", b"NOTSET")
        spatial = len(inputs[0].ty.shape) - 2
        strides = attributes.get("strides", (1,) * spatial)
        dilations = attributes.get("dilations", (1,) * spatial)
        extra = list(attributes.get("output_padding", (0,) * spatial))
        totals = []
        for axis, wanted in enumerate(shape[-spatial:]):
            size, kernel = int(inputs[0].ty.shape[2 + axis]), int(inputs[1].ty.shape[2 + axis])
            total = strides[axis] * (size - 1) + extra[axis] + (kernel - 1) * dilations[axis] + 1 - wanted
            extra[axis] += max(-total, 0)
            totals.append(max(total, 0))
        attributes |= {"pads": _halved(totals, mode), "output_padding": tuple(extra)}
    return onnx_frontend.ConvTranspose.get_converter(11)(builder, inputs, attributes, scope)


def column_to_image(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Col2Im: each element of a column is added at its place in a window, as a transposed convolution does.

    Its weight is one at the place of each element, in a group for each channel.
    """
    image, block = ([int(size) for size in numbers_of(inputs[number])] for number in (1, 2))
    axes, (batch, rows, _) = len(block), extents(inputs[0])
    strides, dilations = (attributes.get(name, (1,) * axes) for name in ("strides", "dilations"))
    pads, elements = attributes.get("pads", (0,) * (2 * axes)), math.prod(block)
    if axes > _MAX_AXES_TRANSPOSED:
        raise ValueError(f"it has {axes} axes")
    counts = [
        (size + pads[axis] + pads[axes + axis] - dilations[axis] * (block[axis] - 1) - 1) // strides[axis] + 1
        for axis, size in enumerate(image)
    ]
    columns = builder.emit(relax.op.reshape(inputs[0], [batch, rows, *counts]))
    weight = np.tile(np.eye(elements).reshape(elements, 1, *block), (rows // elements, *[1] * (axes + 1)))
    given = {"strides": strides, "dilations": dilations, "pads": pads, "group": rows // elements, "output_shape": image}
    operands = onnx_frontend.onnx_input([columns, relax.const(weight, str(inputs[0].ty.dtype)), None])
    return conv_transpose(builder, operands, {**given, "kernel_shape": tuple(block)}, scope)
