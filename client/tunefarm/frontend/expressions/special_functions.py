"""Special functions of elements, by expansions that are as accurate as single precision."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from tvm import te, tirx

_LANCZOS: Final = (
    *(676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894),
    *(-176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707),
    *(9.984369578019570859563e-6, 1.50563273514931155834e-7),
)
"""Coefficients for g = 7 and nine terms, of which the first one is ``_LANCZOS_FIRST`` (Lanczos, 1964)."""
_LANCZOS_FIRST: Final = 0.99999999999980993227684700473478
_LANCZOS_SHIFT: Final = 7.0
_STEPS: Final = 8
"""By which the argument of the digamma function grows before its asymptotic expansion."""
_INVERSE_ERROR_NEAR: Final = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_INVERSE_ERROR_FAR: Final = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
"""Coefficients of Giles, "Approximating the erfinv function" (2010), the highest power first."""


def of_elements(function: Callable[[Any], Any], name: str) -> Callable[[te.Tensor], te.Tensor]:
    """A tensor expression that applies a function to each element; halves are computed in single precision."""

    def element(value: Any) -> Any:
        is_half = str(value.ty.dtype) in {"float16", "bfloat16"}
        return function(value.astype("float32")).astype(str(value.ty.dtype)) if is_half else function(value)

    return lambda data: te.compute(data.shape, lambda *index: element(data(*index)), name=name)


def log_gamma(x: Any) -> Any:
    """The logarithm of the magnitude of the gamma function; infinity at its poles."""
    is_left = x < _of(x, 0.5)
    z = tirx.Select(is_left, -x, x - _of(x, 1.0))
    total = _of(x, _LANCZOS_FIRST)
    for place, coefficient in enumerate(_LANCZOS):
        total = total + _of(x, coefficient) / (z + _of(x, place + 1.0))
    base = z + _of(x, _LANCZOS_SHIFT + 0.5)
    log_base = tirx.log(base)
    # The terms are ordered so that none overflows before the result does.
    result = (z + _of(x, 0.5) - base / log_base) * log_base + (tirx.log(total) + _of(x, math.log(2 * math.pi) / 2))
    distance = tirx.abs(x - tirx.round(x))
    sine = tirx.sin(distance * _of(x, math.pi))
    reflected = _of(x, math.log(math.pi)) - tirx.log(sine) - result
    infinite = tirx.abs(x) == _of(x, math.inf)
    return tirx.Select(infinite, _of(x, math.inf), tirx.Select(is_left, reflected, result))


def digamma(x: Any) -> Any:
    """The derivative of ``log_gamma``; NaN at its poles."""
    is_left = x < _of(x, 0.5)
    z = tirx.Select(is_left, _of(x, 1.0) - x, x)
    total = _of(x, 0.0)
    for step in range(_STEPS):
        total = total + _of(x, 1.0) / (z + _of(x, float(step)))
    large = z + _of(x, float(_STEPS))
    inverse = _of(x, 1.0) / (large * large)
    series = inverse * _polynomial(inverse, (1 / 252, -1 / 120, 1 / 12))
    result = tirx.log(large) - _of(x, 0.5) / large - series - total
    distance = x - tirx.round(x)
    angle = distance * _of(x, math.pi)
    reflected = result - _of(x, math.pi) * tirx.cos(angle) / tirx.sin(angle)
    is_pole = tirx.And(distance == _of(x, 0.0), is_left)
    return tirx.Select(is_pole, _of(x, math.nan), tirx.Select(is_left, reflected, result))


def inverse_error(x: Any) -> Any:
    """The inverse of the error function; infinite at 1 and -1."""
    w = -tirx.log((_of(x, 1.0) - x) * (_of(x, 1.0) + x))
    near = _polynomial(w - _of(x, 2.5), _INVERSE_ERROR_NEAR)
    far = _polynomial(tirx.sqrt(w) - _of(x, 3.0), _INVERSE_ERROR_FAR)
    inside = x * tirx.Select(w < _of(x, 5.0), near, far)
    return tirx.Select(tirx.abs(x) == _of(x, 1.0), x * _of(x, math.inf), inside)


def _of(like: Any, value: float) -> Any:
    return tirx.const(value, str(like.ty.dtype))


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    result = _of(x, coefficients[0])
    for each in coefficients[1:]:
        result = result * x + _of(x, each)
    return result
