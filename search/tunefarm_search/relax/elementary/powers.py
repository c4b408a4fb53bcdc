"""Powers of float32, as ``expressions`` has other functions."""

import math
from collections.abc import Callable
from typing import Final

from tvm import tirx

from tunefarm_search.relax.elementary.terms import (
    LARGEST,
    TO_INTEGER_FLOAT64,
    Expression,
    bound,
    float32,
    float64,
    not_a_number,
    parted,
    polynomial,
    scaled_to_normal,
    sign_of,
    with_sign,
)

_LOG2: Final = tuple(2 / math.log(2) / (2 * k + 1) for k in range(7))
"""Of the quotient of a mantissa less 1 and one more: 2 to the power of -39 of the logarithm is left."""
_EXP: Final = tuple(1 / math.factorial(k) for k in range(9))
_FAR: Final = 200.0
"""Two to this power is infinite in float32, and 0 to its negative."""
_DOUBLE_BIAS: Final = 1023
_DOUBLE_MANTISSA_BITS: Final = 52

_SIMPLE: Final[dict[float, Callable[[Expression], Expression]]] = {
    -2.0: lambda x: bound(1.0 / x, lambda inverse: inverse * inverse),
    -1.0: lambda x: 1.0 / x,
    -0.5: lambda x: 1.0 / tirx.sqrt(x),
    0.5: tirx.sqrt,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    4.0: lambda x: bound(x * x, lambda square: square * square),
}
"""Powers that are few operations of a variable, within 3 units. As in torch, roots of minus infinity are NaN."""


def power(x: Expression, exponent: Expression) -> Expression:
    """``x`` to the power of ``exponent``, within 1 unit; of zeros, infinities and NaN as IEEE 754 says."""
    simple = _SIMPLE.get(getattr(exponent, "value", math.nan))
    if simple is not None:
        return bound(x, simple)
    return bound(x, lambda base: bound(exponent, lambda y: _power(base, y)))


def _power(x: Expression, y: Expression) -> Expression:
    is_integer = tirx.floor(y) == y
    is_odd = is_integer & (tirx.floor(y * 0.5) * 2.0 != y)
    sign = tirx.Select(is_odd, sign_of(x), tirx.IntImm("int32", 0))
    found = with_sign(bound(tirx.abs(x), lambda base: _power_of_magnitude(base, y)), sign)
    is_undefined = (x < 0.0) & (x >= float32(-LARGEST)) & tirx.Not(is_integer)
    defined = tirx.Select(is_undefined, not_a_number(), found)
    is_one = (x == 1.0) | (y == 0.0)
    unknown = tirx.Select(is_one, float32(1.0), not_a_number())
    return tirx.Select(tirx.isnan(x) | tirx.isnan(y), unknown, defined)


def _power_of_magnitude(x: Expression, y: Expression) -> Expression:
    inverse = tirx.Select(y < 0.0, 1.0 / x, float32(1.0))
    of_bound = tirx.Select(y > 0.0, x, inverse)
    return tirx.Select((x > 0.0) & (x <= float32(LARGEST)), _power_of_positive(x, y), of_bound)


def _power_of_positive(x: Expression, y: Expression) -> Expression:
    # A finite exponent makes 1 of 1 in any case.
    finite = tirx.max(float32(-LARGEST), tirx.min(float32(LARGEST), y)).astype("float64")
    exponent = tirx.max(float64(-_FAR), tirx.min(float64(_FAR), finite * _log2(x)))

    def of(given: Expression, whole: Expression) -> Expression:
        scale = (whole + _DOUBLE_BIAS).astype("int64") << _DOUBLE_MANTISSA_BITS
        rest = (given - whole.astype("float64")) * float64(math.log(2))
        exponential = bound(rest, lambda r: polynomial(r, _EXP, float64))
        return (exponential * tirx.reinterpret("float64", scale)).astype("float32")

    def of_nearest(given: Expression) -> Expression:
        # As an integer: TVM's analysis would find the difference of the number and this sum less its addend to be 0.
        nearest = tirx.reinterpret("int64", given + float64(TO_INTEGER_FLOAT64)).astype("int32")
        return bound(nearest, lambda whole: of(given, whole))

    return bound(exponent, of_nearest)


def _log2(x: Expression) -> Expression:
    """The logarithm to base 2 of a finite magnitude above 0, a float64."""
    normal, scale = scaled_to_normal(x)

    def of(mantissa: Expression, exponent: Expression) -> Expression:
        quotient = bound(mantissa.astype("float64"), lambda m: (m - float64(1.0)) / (m + float64(1.0)))
        fraction = bound(quotient, lambda q: polynomial(q * q, _LOG2, float64) * q)
        return (exponent.astype("float32") - scale).astype("float64") + fraction

    return parted(normal, of)
