"""Convolutions and resizing, where TVM's converters ignore attributes or give slow modules."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend

from tunefarm.frontend.onnx.operators.constants import constant

_SAME: Final = frozenset({b"SAME_UPPER", b"SAME_LOWER"})


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


def pool(operator: str) -> Any:
    """SAME as padding: TVM's converter pads by less than nothing where windows are apart, or rounds sizes down."""
    converter = getattr(onnx_frontend, operator)

    def convert(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
        attributes = dict(attributes)
        mode = attributes.get("auto_pad", b"NOTSET")
        if mode in _SAME:
            attributes["pads"] = _same_pads(inputs[0], attributes["kernel_shape"], attributes, mode)
            attributes |= {"auto_pad": b"NOTSET", "ceil_mode": 0}
        return converter.get_converter(1)(builder, inputs, attributes, scope)

    return convert


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


_ROUNDED: Final = frozenset({b"round_prefer_floor", b"round_prefer_ceil"})
_ROUNDINGS: Final[Mapping[bytes, Callable[[Any], Any]]] = MappingProxyType(
    {
        b"round_prefer_floor": lambda positions: np.ceil(positions - np.float32(0.5)),
        b"round_prefer_ceil": lambda positions: np.floor(positions + np.float32(0.5)),
        b"floor": np.floor,
        b"ceil": np.ceil,
    }
)


def resize(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """TVM's converter divides the sizes; ONNX takes the scales as they are, which differs unless they divide evenly."""
    if attributes.get("antialias", 0) or attributes.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        raise ValueError("antialias and keep_aspect_ratio_policy have no conversion")
    if attributes.get("coordinate_transformation_mode") in {b"half_pixel_symmetric", b"tf_crop_and_resize"}:
        raise ValueError("its coordinate_transformation_mode has no conversion")
    shape = [int(size) for size in inputs[0].ty.shape]
    wanted = _wanted(shape, inputs, attributes)
    if wanted[:2] != shape[:2]:
        raise ValueError("batch and channels cannot be resized")
    data = inputs[0]
    for axis in range(2, len(shape)):
        places = _chosen_places(shape[axis], wanted[axis], attributes)
        if places is not None:
            data = builder.emit(relax.op.take(data, constant(places.astype(np.int64)), axis))
            shape[axis] = wanted[axis]
    if wanted == shape:
        return data
    operands = onnx_frontend.onnx_input([data, inputs[1], None, constant(np.asarray(wanted, np.int64))])
    plain = {name: value for name, value in attributes.items() if name != "axes"}
    return onnx_frontend.Resize.get_converter(18)(builder, operands, plain, scope)


def _wanted(shape: Sequence[int], inputs: Any, attributes: Mapping[str, Any]) -> list[int]:
    """The shape of the result, by scales or sizes."""
    axes = [axis % len(shape) for axis in attributes.get("axes", range(len(shape)))]
    scales, sizes = (_numbers(inputs[index]) for index in (2, 3))
    wanted = list(shape)
    if scales is not None:
        for axis, scale in zip(axes, scales, strict=True):
            wanted[axis] = int(np.floor(np.float32(scale) * np.float32(shape[axis])))
            if abs(wanted[axis] - scale * shape[axis]) > 1e-3:
                raise ValueError(f"scale {scale} of axis {axis} gives no whole number of elements: give sizes")
    elif sizes is not None:
        for axis, size in zip(axes, sizes, strict=True):
            wanted[axis] = int(size)
    return wanted


def _chosen_places(extent: int, wanted: int, attributes: Mapping[str, Any]) -> Any:
    """The elements of an axis that a result consists of, where TVM would take others or fail; None elsewhere."""
    if wanted == extent:
        return None
    coordinates = attributes.get("coordinate_transformation_mode", b"half_pixel")
    rounding = attributes.get("nearest_mode", b"round_prefer_floor")
    is_aligned, has_ties = coordinates == b"align_corners", max(wanted, extent) % min(wanted, extent) > 0
    if attributes.get("mode", b"nearest") == b"nearest" and (is_aligned or (rounding in _ROUNDED and has_ties)):
        return _nearest(extent, wanted, coordinates, rounding)
    return np.zeros(1) if is_aligned and wanted == 1 else None  # TVM divides by zero


def _nearest(extent: int, wanted: int, coordinates: bytes, rounding: bytes) -> Any:
    """Places along an axis in onnxruntime's arithmetic: TVM's gives others where two elements are as near."""
    numbers = np.arange(wanted, dtype=np.float32)
    half, scale = np.float32(0.5), np.float32(wanted) / np.float32(extent)
    if coordinates == b"align_corners":
        positions = numbers * np.float32(extent - 1) / np.float32(max(wanted - 1, 1))
    elif coordinates == b"asymmetric":
        positions = numbers * np.float32(extent) / np.float32(wanted)
    else:
        positions = (numbers + half) / scale - half
        positions = positions * (wanted > 1) if coordinates == b"pytorch_half_pixel" else positions
    return np.clip(_ROUNDINGS[rounding](positions), 0, extent - 1)


def _numbers(value: Any) -> Any:
    """The contents of an input; None if it is absent or empty, as ONNX writes the one of scales and sizes not used."""
    if value is None:
        return None
    if not isinstance(value, GenericConst):
        raise ValueError("its sizes depend on the input of the model")
    numbers = value.value.numpy()
    return numbers if numbers.size else None
