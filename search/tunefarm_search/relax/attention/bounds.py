"""Lower and upper bounds of the elements of Relax tensors.

Bounds are arrays that broadcast to the shape of the tensor, computed in its element type: a sum that overflows has an
infinite bound. What layers compute from activations is taken to be finite and at most ``_largest`` in magnitude.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from tvm import relax

from tunefarm_search.relax.constants import Array, array_of, is_constant, numpy_dtype

MAX_ELEMENTS: Final = 1 << 24
"""Of the arrays of a bound that is reshaped."""
_LARGEST: Final = MappingProxyType({"float16": 1e4, "bfloat16": 2.0**100, "float32": 2.0**100, "float64": 2.0**900})
"""Of an activation. In float32 the sum with the lowest number, which masks hold, rounds to a finite number."""


class ElementBounds(NamedTuple):
    """Each element is between those of ``low`` and ``high``, or NaN. Bounds of booleans are booleans."""

    low: Array
    high: Array

    @property
    def is_exact(self) -> bool:
        """Whether the elements are known."""
        return bool(np.array_equal(self.low, self.high))


class BoundsAnalysis:
    """Bounds of the values of one function."""

    def __init__(self, function: Any) -> None:
        self._values = relax.analysis.get_var2val(function)
        self._known: dict[Any, ElementBounds | None] = {}

    def value(self, expression: Any) -> Any:
        """What a variable of the function is bound to; other expressions and parameters as they are."""
        while isinstance(expression, relax.Var) and expression in self._values:
            expression = self._values[expression]
        return expression

    def of(self, expression: Any) -> ElementBounds | None:
        """The bounds of a tensor; None if its element type has none that are known."""
        value = self.value(expression)
        if value not in self._known:
            self._known[value] = self._computed(value)
        return self._known[value]

    def _computed(self, value: Any) -> ElementBounds | None:
        dtype = _dtype_of(value)
        if dtype is None:
            return None
        if is_constant(value):
            array = array_of(value)
            return ElementBounds(array, array)
        widest = _widest(dtype)
        if not isinstance(value, relax.Call):
            return widest
        name = str(getattr(value.op, "name", ""))
        if name in _LAYERS and dtype in _LARGEST:
            most = np.asarray(_LARGEST[dtype], numpy_dtype(dtype))
            return ElementBounds(-most, most)
        rule = _RULES.get(name)
        if rule is None:
            return widest
        arguments = [self.of(each) for each in value.args if isinstance(getattr(each, "ty", None), relax.TensorType)]
        if any(each is None for each in arguments):
            return widest
        with np.errstate(all="ignore"):
            found = rule([each for each in arguments if each is not None], value)
        return widest if found is None else _typed(found, dtype)


def _dtype_of(value: Any) -> str | None:
    kind = getattr(value, "ty", None)
    if not isinstance(kind, relax.TensorType) or kind.shape is None:
        return None
    dtype = str(kind.dtype)
    is_known = dtype in _LARGEST or dtype == "bool" or dtype.removeprefix("u") in ("int8", "int16", "int32", "int64")
    return dtype if is_known else None


def _widest(dtype: str) -> ElementBounds:
    kind = numpy_dtype(dtype)
    if dtype == "bool":
        return ElementBounds(np.asarray(False), np.asarray(True))
    if dtype in _LARGEST:
        return ElementBounds(np.asarray(-np.inf, kind), np.asarray(np.inf, kind))
    return ElementBounds(np.asarray(np.iinfo(kind).min, kind), np.asarray(np.iinfo(kind).max, kind))


def _typed(bounds: ElementBounds, dtype: str) -> ElementBounds:
    """Bounds in the element type; the widest in place of NaN."""
    kind, widest = numpy_dtype(dtype), _widest(dtype)
    low, high = np.asarray(bounds.low).astype(kind), np.asarray(bounds.high).astype(kind)
    if dtype in _LARGEST:
        unknown = np.isnan(low) | np.isnan(high)
        low, high = np.where(unknown, widest.low, low), np.where(unknown, widest.high, high)
    return ElementBounds(low, high)


_Rule = Callable[[list[ElementBounds], Any], ElementBounds | None]


def _add(given: list[ElementBounds], call: Any) -> ElementBounds | None:
    one, other = given
    return ElementBounds(one.low + other.low, one.high + other.high) if _is_float(call) or _are_exact(given) else None


def _subtract(given: list[ElementBounds], call: Any) -> ElementBounds | None:
    one, other = given
    return ElementBounds(one.low - other.high, one.high - other.low) if _is_float(call) or _are_exact(given) else None


def _multiply(given: list[ElementBounds], call: Any) -> ElementBounds | None:
    if not _is_float(call) and not _are_exact(given):
        return None
    one, other = given
    corners = [left * right for left in one for right in other]
    return ElementBounds(_least(corners), _greatest(corners))


def _least(arrays: list[Array]) -> Array:
    found = arrays[0]
    for array in arrays[1:]:
        found = np.minimum(found, array)  # NaN stays
    return found


def _greatest(arrays: list[Array]) -> Array:
    found = arrays[0]
    for array in arrays[1:]:
        found = np.maximum(found, array)
    return found


def _is_float(call: Any) -> bool:
    return str(call.ty.dtype) in _LARGEST


def _are_exact(given: list[ElementBounds]) -> bool:
    return all(each.is_exact for each in given)


def _where(given: list[ElementBounds], _call: Any) -> ElementBounds:
    condition, one, other = given
    low = np.where(condition.low, one.low, np.where(condition.high, np.minimum(one.low, other.low), other.low))
    high = np.where(condition.low, one.high, np.where(condition.high, np.maximum(one.high, other.high), other.high))
    return ElementBounds(low, high)


def _astype(given: list[ElementBounds], call: Any) -> ElementBounds | None:
    """Of booleans and integers to floats, and of known numbers."""
    if str(call.ty.dtype) == "bool":
        return ElementBounds(given[0].low != 0, given[0].high != 0) if given[0].is_exact else None
    return given[0] if _is_float(call) or given[0].low.dtype == np.bool_ else None


def _not(given: list[ElementBounds], _call: Any) -> ElementBounds:
    return ElementBounds(np.logical_not(given[0].high), np.logical_not(given[0].low))


def _monotone(function: Callable[..., Any]) -> _Rule:
    def bound(given: list[ElementBounds], _call: Any) -> ElementBounds:
        return ElementBounds(function(*(each.low for each in given)), function(*(each.high for each in given)))

    return bound


def _comparison(function: Callable[[Any, Any], Any]) -> _Rule:
    """Of a comparison that holds the more likely, the smaller its first and the larger its second argument is."""

    def bound(given: list[ElementBounds], _call: Any) -> ElementBounds:
        one, other = given
        return ElementBounds(function(one.high, other.low), function(one.low, other.high))

    return bound


def _reversed(function: Callable[[Any, Any], Any]) -> _Rule:
    def bound(given: list[ElementBounds], call: Any) -> ElementBounds | None:
        return _comparison(function)(given[::-1], call)

    return bound


def _filled(value: float) -> _Rule:
    def bound(_given: list[ElementBounds], _call: Any) -> ElementBounds:
        return ElementBounds(np.asarray(value), np.asarray(value))

    return bound


def _full(given: list[ElementBounds], _call: Any) -> ElementBounds:
    """The last tensor is the value; the first one of ``full_like`` gives the shape."""
    return given[-1]


def _arange(_given: list[ElementBounds], call: Any) -> ElementBounds | None:
    numbers = [getattr(each, "value", None) for each in call.args]
    numbers = [getattr(each, "value", each) for each in numbers]
    if len(numbers) != 3 or not all(isinstance(each, int | float) for each in numbers):
        return None
    found = np.arange(*numbers)  # type: ignore[arg-type]
    return ElementBounds(found, found) if found.shape == tuple(_shape(call)) else None


def _triangle(function: Callable[..., Any]) -> _Rule:
    def bound(given: list[ElementBounds], call: Any) -> ElementBounds | None:
        offset, shape = getattr(call.args[1], "value", None), _shape(call)
        offset = getattr(offset, "value", offset)
        if not isinstance(offset, int) or int(np.prod(shape)) > MAX_ELEMENTS:
            return None
        return ElementBounds(*(function(np.broadcast_to(each, shape), offset) for each in given[0]))

    return bound


def _reshaped(given: list[ElementBounds], call: Any) -> ElementBounds | None:
    if all(each.size == 1 for each in given[0]):
        return ElementBounds(*(each.reshape(()) for each in given[0]))
    shape = _shape(call)
    of_source = _shape(call.args[0])
    if int(np.prod(of_source)) > MAX_ELEMENTS:
        return None
    return ElementBounds(*(np.broadcast_to(each, of_source).reshape(shape) for each in given[0]))


def _permuted(given: list[ElementBounds], call: Any) -> ElementBounds:
    axes, shape = call.attrs.axes, _shape(call.args[0])
    order = None if axes is None else [int(axis) for axis in axes]
    return ElementBounds(*(np.transpose(np.broadcast_to(each, shape), order) for each in given[0]))


def _sliced(given: list[ElementBounds], call: Any) -> ElementBounds | None:
    numbers = [[getattr(each, "value", None) for each in columns] for columns in call.args[1:]]
    if any(not isinstance(each, int) for columns in numbers for each in columns) or len(numbers) not in (3, 4):
        return None
    shape = _shape(call.args[0])
    at = [slice(None)] * len(shape)
    for axis, *limits in zip(*numbers, strict=True):
        at[axis] = slice(*limits)
    found = ElementBounds(*(np.broadcast_to(each, shape)[tuple(at)] for each in given[0]))
    return found if list(found.low.shape) == _shape(call) else None


def _any_element(given: list[ElementBounds], _call: Any) -> ElementBounds:
    return ElementBounds(np.min(given[0].low), np.max(given[0].high))


def _kept(given: list[ElementBounds], _call: Any) -> ElementBounds:
    return given[0]


def _shape(value: Any) -> list[int]:
    return [int(extent) for extent in value.ty.shape]


_LAYERS: Final = frozenset(
    f"relax.{name}"
    for name in ("matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.layer_norm", "nn.rms_norm", "nn.softmax")
)
"""Operators whose results are activations."""
_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        "relax.add": _add,
        "relax.subtract": _subtract,
        "relax.multiply": _multiply,
        "relax.maximum": _monotone(np.maximum),
        "relax.minimum": _monotone(np.minimum),
        "relax.where": _where,
        "relax.astype": _astype,
        "relax.logical_not": _not,
        "relax.logical_and": _monotone(np.logical_and),
        "relax.logical_or": _monotone(np.logical_or),
        "relax.less": _comparison(np.less),
        "relax.less_equal": _comparison(np.less_equal),
        "relax.greater": _reversed(np.less),
        "relax.greater_equal": _reversed(np.less_equal),
        "relax.zeros": _filled(0),
        "relax.zeros_like": _filled(0),
        "relax.ones": _filled(1),
        "relax.ones_like": _filled(1),
        "relax.full": _full,
        "relax.full_like": _full,
        "relax.arange": _arange,
        "relax.tril": _triangle(np.tril),
        "relax.triu": _triangle(np.triu),
        "relax.broadcast_to": _kept,
        **{f"relax.{name}": _reshaped for name in ("reshape", "flatten", "expand_dims", "squeeze")},
        "relax.permute_dims": _permuted,
        "relax.strided_slice": _sliced,
        "relax.take": _any_element,
    }
)
