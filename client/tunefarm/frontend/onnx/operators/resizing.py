"""Resize: TVM's converter knows some of its attributes, and others are products with a matrix for each axis.

onnx.ai/onnx/operators, Resize-19.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from tunefarm.frontend.expressions.along_axis import extents, multiplied
from tunefarm.frontend.onnx.operators.constants import constant, numbers_of

_Floats = npt.NDArray[np.floating[Any]]
_CROP: Final = b"tf_crop_and_resize"
_OF_TVM: Final = frozenset({b"half_pixel", b"pytorch_half_pixel", b"align_corners", b"asymmetric"})
_ROUNDED: Final = frozenset({b"round_prefer_floor", b"round_prefer_ceil"})
_ROUNDINGS: Final[Mapping[bytes, Callable[[Any], Any]]] = MappingProxyType(
    {
        b"round_prefer_floor": lambda positions: np.ceil(positions - np.float32(0.5)),
        b"round_prefer_ceil": lambda positions: np.floor(positions + np.float32(0.5)),
        b"floor": np.floor,
        b"ceil": np.ceil,
    }
)
_REACH: Final[Mapping[bytes, int]] = MappingProxyType({b"linear": 1, b"cubic": 2})
"""How far from a position the elements are that it depends on, by mode."""


@dataclass(frozen=True)
class _Axis:
    """How an axis is resized.

    Attributes:
        extent: elements of the input.
        wanted: elements of the result.
        scale: as the model gives it, which is not their quotient where the result was rounded.
        region: the part of the input that is resized, in shares of it, for ``_CROP``.
    """

    extent: int
    wanted: int
    scale: float
    region: tuple[float, float]


def resize(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """TVM's converter divides the sizes; ONNX takes the scales as they are, which differs unless they divide evenly."""
    data, axes = inputs[0], _axes(inputs, attributes)
    if not _is_of_tvm(axes, attributes):
        return _as_products(builder, data, axes, attributes)
    for number, axis in enumerate(axes):
        places = _chosen_places(axis.extent, axis.wanted, attributes) if number > 1 else None
        if places is not None:
            data = builder.emit(relax.op.take(data, constant(places.astype(np.int64)), number))
    wanted = [axis.wanted for axis in axes]
    if wanted == extents(data):
        return data
    operands = onnx_frontend.onnx_input([data, inputs[1], None, constant(np.asarray(wanted, np.int64))])
    plain = {name: value for name, value in attributes.items() if name != "axes"}
    return onnx_frontend.Resize.get_converter(18)(builder, operands, plain, scope)


def _axes(inputs: Any, attributes: Mapping[str, Any]) -> list[_Axis]:
    shape = extents(inputs[0])
    resized = [axis % len(shape) for axis in attributes.get("axes", range(len(shape)))]
    given, sizes = (numbers_of(inputs[index]) for index in (2, 3))
    wanted, scales = list(shape), [1.0] * len(shape)
    if given is not None:
        for axis, scale in zip(resized, given, strict=True):
            wanted[axis] = int(np.floor(np.float32(scale) * np.float32(shape[axis])))
            scales[axis] = float(scale)
    elif sizes is not None:
        quotients = [int(size) / shape[axis] for axis, size in zip(resized, sizes, strict=True)]
        policy = attributes.get("keep_aspect_ratio_policy", b"stretch")
        for axis, size, quotient in zip(resized, sizes, quotients, strict=True):
            scales[axis] = {b"not_larger": min(quotients), b"not_smaller": max(quotients)}.get(policy, quotient)
            wanted[axis] = int(size) if policy == b"stretch" else int(scales[axis] * shape[axis] + 0.5)
    regions = [(0.0, 1.0)] * len(shape)
    if attributes.get("coordinate_transformation_mode") == _CROP:
        bounds = [float(bound) for bound in numbers_of(inputs[1])]
        for axis, region in zip(resized, zip(bounds[: len(resized)], bounds[len(resized) :], strict=True), strict=True):
            regions[axis] = region
    return [_Axis(*each) for each in zip(shape, wanted, scales, regions, strict=True)]


def _is_of_tvm(axes: Sequence[_Axis], attributes: Mapping[str, Any]) -> bool:
    """Whether TVM's converter, which resizes the axes behind the channels by the quotients of sizes, does the same."""
    return (
        attributes.get("coordinate_transformation_mode", b"half_pixel") in _OF_TVM
        and not attributes.get("antialias", 0)
        and all(abs(axis.wanted - axis.scale * axis.extent) <= 1e-3 for axis in axes)
        and all(axis.wanted == axis.extent for axis in axes[:2])
    )


def _chosen_places(extent: int, wanted: int, attributes: Mapping[str, Any]) -> Any:
    """The elements of an axis that a result consists of, where TVM would take others or fail; None elsewhere."""
    if wanted == extent:
        return None
    coordinates = attributes.get("coordinate_transformation_mode", b"half_pixel")
    rounding = attributes.get("nearest_mode", b"round_prefer_floor")
    is_aligned, has_ties = coordinates == b"align_corners", max(wanted, extent) % min(wanted, extent) > 0
    if attributes.get("mode", b"nearest") == b"nearest" and (is_aligned or (rounding in _ROUNDED and has_ties)):
        positions = _positions(_Axis(extent, wanted, wanted / extent, (0.0, 1.0)), coordinates)
        return np.clip(_ROUNDINGS[rounding](positions), 0, extent - 1)
    return np.zeros(1) if is_aligned and wanted == 1 else None  # TVM divides by zero


def _positions(axis: _Axis, coordinates: bytes) -> _Floats:
    """Places along an axis in onnxruntime's arithmetic: TVM's gives others where two elements are as near."""
    numbers = np.arange(axis.wanted, dtype=np.float32)
    half, scale, last = np.float32(0.5), np.float32(axis.scale), np.float32(axis.extent - 1)
    length = np.float32(axis.scale * axis.extent)
    if coordinates == b"align_corners":
        return numbers * last / max(length - 1, np.float32(1))
    if coordinates == b"asymmetric":
        return numbers / scale if axis.wanted != length else numbers * np.float32(axis.extent) / np.float32(axis.wanted)
    if coordinates == b"tf_half_pixel_for_nn":
        return (numbers + half) / scale
    if coordinates == _CROP:
        begin, end = (np.float32(bound) for bound in axis.region)
        if length <= 1:
            return np.full(axis.wanted, begin * last + (end - begin) * last / 2, np.float32)
        return begin * last + numbers * (end - begin) * last / (length - 1)
    positions = (numbers + half) / scale - half
    if coordinates == b"half_pixel_symmetric":
        return positions + np.float32(axis.extent / 2) * (1 - np.float32(axis.wanted) / length)
    return positions * (axis.wanted > 1) if coordinates == b"pytorch_half_pixel" else positions


def _as_products(builder: Any, data: Any, axes: Sequence[_Axis], attributes: Mapping[str, Any]) -> Any:
    """Each axis times the shares that its elements have in the result; elements outside of a crop are one number."""
    dtype = str(data.ty.dtype)
    if not dtype.startswith(("float", "bfloat")):
        raise ValueError(f"with these attributes it has no conversion for {dtype}")
    is_outside = np.zeros([1] * len(axes), bool)
    for number, axis in enumerate(axes):
        if axis.wanted == axis.extent and axis.scale == 1 and axis.region == (0.0, 1.0):
            continue
        positions = _positions(axis, attributes.get("coordinate_transformation_mode", b"half_pixel"))
        data = multiplied(data, _shares(positions, axis, attributes), number, builder.emit)
        outside = (positions < 0) | (positions > axis.extent - 1)
        is_outside = is_outside | outside.reshape([-1 if each == number else 1 for each in range(len(axes))])
    if attributes.get("coordinate_transformation_mode") != _CROP or not is_outside.any():
        return data
    mask = relax.const(np.broadcast_to(is_outside, extents(data)).copy(), "bool")
    return relax.op.where(mask, relax.const(attributes.get("extrapolation_value", 0.0), dtype), data)


def _shares(positions: _Floats, axis: _Axis, attributes: Mapping[str, Any]) -> _Floats:
    """Of each element of an axis in each of the result: [result, input], with sums of one."""
    mode = attributes.get("mode", b"nearest")
    if mode == b"nearest":
        rounding = _ROUNDINGS[attributes.get("nearest_mode", b"round_prefer_floor")]
        chosen: _Floats = np.eye(axis.extent)[np.clip(rounding(positions), 0, axis.extent - 1).astype(int)]
        return chosen
    narrowing = min(axis.scale, 1.0) if attributes.get("antialias", 0) else 1.0
    reach = int(np.ceil(_REACH[mode] / narrowing))
    first = np.floor(positions).astype(int) - reach
    places = first[:, None] + np.arange(2 * reach + 2)
    distances = np.abs(places - positions[:, None].astype(np.float64)) * narrowing
    weights = np.clip(1 - distances, 0, 1) if mode == b"linear" else _cubic(distances, attributes)
    if attributes.get("exclude_outside", 0):
        weights = np.where((places < 0) | (places >= axis.extent), 0, weights)
    shares: _Floats = np.zeros((axis.wanted, axis.extent))
    rows = np.broadcast_to(np.arange(axis.wanted)[:, None], places.shape)
    np.add.at(shares, (rows, np.clip(places, 0, axis.extent - 1)), weights)
    shares /= shares.sum(1, keepdims=True)
    return shares


def _cubic(distances: _Floats, attributes: Mapping[str, Any]) -> _Floats:
    """Keys' kernel, of which the attribute gives one coefficient."""
    a = attributes.get("cubic_coeff_a", -0.75)
    near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
    far = ((a * distances - 5 * a) * distances + 8 * a) * distances - 4 * a
    kernel: _Floats = np.where(distances <= 1, near, np.where(distances < _REACH[b"cubic"], far, 0))
    return kernel
