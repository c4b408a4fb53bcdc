"""What is known of quantized values: scales, zero points, and the integers of constants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tvm import relax

from tunefarm_search.relax.constants import array_of, is_constant
from tunefarm_search.relax.expressions import Lookup, operator_of, scalar_of

Array = npt.NDArray[Any]
INTEGERS: Final = frozenset({"int8", "uint8"})
"""Types of activations."""
_WIDER: Final = frozenset({"int8", "uint8", "int32"})


@dataclass(frozen=True)
class QuantizedTensor:
    """An activation in 8 bits with one scale.

    Attributes:
        integers: the Relax expression.
        scale: of one step.
        zero_point: the integer that stands for zero.
    """

    integers: Any
    scale: float
    zero_point: int


@dataclass(frozen=True)
class QuantizedConstant:
    """A constant in integers.

    Attributes:
        integers: less their zero point, int64.
        scales: of each element, float64, of the same shape.
    """

    integers: Array
    scales: Array


def quantized_tensor(expression: Any, lookup: Lookup) -> QuantizedTensor | None:
    """What ``expression`` dequantizes, if that is an activation in 8 bits with one scale."""
    call = lookup(expression)
    if operator_of(call) != "relax.dequantize" or str(call.args[0].ty.dtype) not in INTEGERS:
        return None
    scale, zero_point = scalar_of(lookup(call.args[1])), scalar_of(lookup(call.args[2]))
    if scale is None or zero_point is None or str(call.ty.dtype) != "float32":
        return None
    return QuantizedTensor(call.args[0], scale, int(zero_point))


def quantized_constant(expression: Any, lookup: Lookup) -> QuantizedConstant | None:
    """The integers and scales of a dequantized constant, also if its layout is changed afterwards."""
    call = lookup(expression)
    name = operator_of(call)
    if name == "relax.dequantize":
        return _dequantized(call, lookup)
    if name not in _LAYOUTS:
        return None
    inner = quantized_constant(call.args[0], lookup)
    if inner is None:
        return None
    change = _LAYOUTS[name]
    return QuantizedConstant(change(inner.integers, call), change(inner.scales, call))


def constant_values(expression: Any, lookup: Lookup) -> Array | None:
    """The numbers of a constant, dequantized or not, in float64; None for other expressions."""
    call = lookup(expression)
    if is_constant(call):
        array = array_of(call)
        return array.astype(np.float64) if array.dtype.kind in "fiu" else None
    if operator_of(call) in _LAYOUTS:
        inner = constant_values(call.args[0], lookup)
        return None if inner is None else _LAYOUTS[operator_of(call)](inner, call)
    known = quantized_constant(call, lookup)
    return None if known is None else known.integers * known.scales


def _dequantized(call: Any, lookup: Lookup) -> QuantizedConstant | None:
    data, scale, zero_point = (lookup(each) for each in call.args)
    if not all(is_constant(each) for each in (data, scale, zero_point)) or str(call.ty.dtype) != "float32":
        return None
    integers = array_of(data)
    if str(integers.dtype) not in _WIDER:
        return None
    scales = _along(array_of(scale).astype(np.float64), int(call.attrs.axis), integers.shape)
    zero_points = _along(array_of(zero_point).astype(np.int64), int(call.attrs.axis), integers.shape)
    return QuantizedConstant(integers.astype(np.int64) - zero_points, scales)


def _along(values: Array, axis: int, shape: tuple[int, ...]) -> Array:
    """One value for the whole tensor, or one for each index along an axis, as a view of the shape."""
    if values.size > 1:
        extents = [1] * len(shape)
        extents[axis] = values.size
        values = values.reshape(extents)
    return np.broadcast_to(values.reshape(()) if values.size == 1 else values, shape)


def _permuted(array: Array, call: Any) -> Array:
    axes = call.attrs.axes
    return np.transpose(array, None if axes is None else [int(axis) for axis in axes])


def _reshaped(array: Array, call: Any) -> Array:
    return array.reshape([int(extent) for extent in call.ty.shape])


_LAYOUTS: Final[Mapping[str, Callable[[Array, Any], Array]]] = {
    "relax.permute_dims": _permuted,
    **{f"relax.{name}": _reshaped for name in ("reshape", "flatten", "expand_dims", "squeeze")},
}


def is_static(expression: Any) -> bool:
    """Whether a tensor has a constant shape."""
    shape = getattr(expression.ty, "shape", None)
    return isinstance(shape, relax.ShapeExpr) and all(hasattr(extent, "value") for extent in shape)
