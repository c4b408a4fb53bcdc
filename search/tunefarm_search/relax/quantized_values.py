"""What is known of quantized values: scales, zero points, and the integers of constants."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from tvm import relax

from tunefarm_search.relax.constants import Array, array_of, is_constant, numpy_dtype
from tunefarm_search.relax.expressions import Lookup, operator_of, scalar_of

INTEGERS: Final = frozenset({"int8", "uint8"})
"""Types of activations."""
CODES: Final = INTEGERS | {"int32"}
"""Types of constants. Those of 32 bits are biases, or hold smaller integers."""
_FLOATS: Final = frozenset({"float32", "float16", "bfloat16"})
_MAX_CODE: Final = 255


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
        integers: less their zero point, int16, or int64 if they had more than 8 bits.
        scales: of each element, float32 or float64, of the same shape. Usually a view of fewer numbers.
    """

    integers: Array
    scales: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the constant."""
        return tuple(self.integers.shape)


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
    """The integers and scales of a dequantized constant, also if its layout is changed afterwards.

    Knows ``dequantize``, and integers of 8 bits made floats, less zero points and times scales.
    """
    call = lookup(expression)
    name = operator_of(call)
    if name == "relax.dequantize":
        return _dequantized(call, lookup)
    if name == "relax.astype" and str(call.args[0].ty.dtype) in CODES:
        integers = converted_constant(call, lookup, CODES)
        if integers is None or np.abs(integers.astype(np.int64)).max(initial=0) > _MAX_CODE:
            return None
        return QuantizedConstant(integers.astype(np.int16), np.broadcast_to(np.float32(1), integers.shape))
    if name == "relax.multiply":
        return _scaled(call.args, lookup) or _scaled(call.args[::-1], lookup)
    if name not in _CHANGES:
        return None
    inner = quantized_constant(call.args[0], lookup)
    return None if inner is None else _CHANGES[name](inner, call, lookup)


def converted_constant(expression: Any, lookup: Lookup, types: frozenset[str]) -> Array | None:
    """A constant of one of the types that is made floats, in its own type; also if its layout is changed."""
    call, is_float = lookup(expression), False
    changes: list[tuple[Callable[[Array, Any], Array], Any]] = []
    while not is_constant(call):
        name = operator_of(call)
        if name in _LAYOUTS:
            changes.append((_LAYOUTS[name], call))
        elif name != "relax.astype" or is_float or str(call.ty.dtype) not in _FLOATS:
            return None
        else:
            is_float = True
        call = lookup(call.args[0])
    array = array_of(call)
    if not is_float or str(array.dtype) not in types:
        return None
    for change, at in reversed(changes):
        array = change(array, at)
    return array


def is_relaid(expression: Any) -> bool:
    """Whether an expression only changes the layout of its first argument."""
    return operator_of(expression) in _LAYOUTS


def _shifted(constant: QuantizedConstant, call: Any, lookup: Lookup) -> QuantizedConstant | None:
    """The integers less their zero points; None if these are no integers of 8 bits, or if all are scaled already."""
    zero_points = constant_values(call.args[1], lookup)
    if zero_points is None or not _is_next(constant, zero_points):
        return None
    rounded = np.rint(zero_points)
    if not (rounded == zero_points).all() or np.abs(rounded).max(initial=0) > _MAX_CODE:
        return None
    return replace(constant, integers=constant.integers - rounded.astype(np.int16))


def _scaled(factors: Sequence[Any], lookup: Lookup) -> QuantizedConstant | None:
    """The product of integers, the first factor, and scales."""
    constant = quantized_constant(factors[0], lookup)
    scales = None if constant is None else constant_values(factors[1], lookup)
    if constant is None or scales is None or not _is_next(constant, scales):
        return None
    return replace(constant, scales=np.broadcast_to(scales.astype(np.float32), constant.shape))


def _is_next(constant: QuantizedConstant, values: Array) -> bool:
    """Whether values can be repeated to the shape of a constant that is not scaled yet."""
    return _extends(constant.shape, values) and bool((constant.scales == 1).all())


def _extends(shape: tuple[int, ...], values: Array) -> bool:
    """Whether values can be repeated to the shape."""
    try:
        return np.broadcast_shapes(shape, values.shape) == shape
    except ValueError:
        return False


def constant_values(expression: Any, lookup: Lookup) -> Array | None:
    """The numbers of a constant, dequantized or not, in float64; None for other expressions."""
    call = lookup(expression)
    if is_constant(call):
        array = array_of(call)
        return array.astype(np.float64) if array.dtype.kind in "fiu" or str(array.dtype) in _FLOATS else None
    if operator_of(call) in _LAYOUTS:
        inner = constant_values(call.args[0], lookup)
        return None if inner is None else _LAYOUTS[operator_of(call)](inner, call)
    if operator_of(call) == "relax.astype" and str(call.ty.dtype) in _FLOATS:
        inner = constant_values(call.args[0], lookup)
        return None if inner is None else inner.astype(numpy_dtype(str(call.ty.dtype))).astype(np.float64)
    known = quantized_constant(call, lookup)
    return None if known is None else known.integers * known.scales.astype(np.float64)


def _dequantized(call: Any, lookup: Lookup) -> QuantizedConstant | None:
    data, scale, zero_point = (lookup(each) for each in call.args)
    if not all(is_constant(each) for each in (data, scale, zero_point)) or str(call.ty.dtype) != "float32":
        return None
    integers = array_of(data)
    if str(integers.dtype) not in CODES:
        return None
    wide = np.int64 if integers.dtype.itemsize > 1 else np.int16
    scales = _along(array_of(scale), int(call.attrs.axis), integers.shape)
    zero_points = _along(array_of(zero_point).astype(wide), int(call.attrs.axis), integers.shape)
    return QuantizedConstant(integers.astype(wide) - zero_points, scales)


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


def _relaid(constant: QuantizedConstant, call: Any, _lookup: Lookup) -> QuantizedConstant:
    change = _LAYOUTS[operator_of(call)]
    return QuantizedConstant(change(constant.integers, call), change(constant.scales, call))


def _in_other_floats(constant: QuantizedConstant, call: Any, _lookup: Lookup) -> QuantizedConstant | None:
    """What a constant in halves is in float32, without the rounding of its elements to halves."""
    return constant if str(call.ty.dtype) in _FLOATS else None


_CHANGES: Final[Mapping[str, Callable[[QuantizedConstant, Any, Lookup], QuantizedConstant | None]]] = {
    **dict.fromkeys(_LAYOUTS, _relaid),
    "relax.astype": _in_other_floats,
    "relax.subtract": _shifted,
}


def is_static(expression: Any) -> bool:
    """Whether a tensor has a constant shape."""
    shape = getattr(expression.ty, "shape", None)
    return isinstance(shape, relax.ShapeExpr) and all(hasattr(extent, "value") for extent in shape)
