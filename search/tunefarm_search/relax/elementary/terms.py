"""Parts of elementary functions: constants, polynomials, bits, and variables for values that are used repeatedly."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tvm import tirx

Expression = Any
"""A TIR expression, of type float32 where nothing else is said."""

LARGEST: Final = (2.0 - 2.0**-23) * 2.0**127
MANTISSA_BITS: Final = 23
TO_INTEGER_FLOAT64: Final = 6755399441055744.0
"""1.5 times 2 to the power of 52: a float64 that is the sum with it has the nearest integer in its last bits."""
_NAN_BITS: Final = 0x7FC00000
_SQRT_HALF_BITS: Final = 0x3F3504F3
_SMALLEST_NORMAL: Final = 2.0**-126
_SUBNORMAL_SCALE: Final = 25
_SIGN_BIT: Final = -0x80000000


def float32(value: float) -> Expression:
    """A constant."""
    return tirx.FloatImm("float32", value)


def float64(value: float) -> Expression:
    """A constant of type float64."""
    return tirx.FloatImm("float64", value)


def of_bits(bits: int) -> Expression:
    """A number that JSON has no notation for, and with it no file of TVM's that other programs read."""
    return tirx.reinterpret("float32", tirx.IntImm("int32", bits))


def not_a_number() -> Expression:
    """The quiet NaN."""
    return of_bits(_NAN_BITS)


def bound(value: Expression, body: Callable[[Expression], Expression]) -> Expression:
    """``body`` of a variable that holds the value: an expression is a tree, and would compute the value repeatedly."""
    variable = tirx.Var("v", value.ty)
    return tirx.Let(variable, value, body(variable))


def polynomial(
    x: Expression, coefficients: Sequence[float], number: Callable[[float], Expression] = float32
) -> Expression:
    """Horner's scheme, with the coefficient of degree 0 first."""
    *others, found = (number(each) for each in coefficients)
    for each in reversed(others):
        found = found * x + each
    return found


def parted(x: Expression, body: Callable[[Expression, Expression], Expression]) -> Expression:
    """``body`` of the mantissa and of the exponent, an int32, of a positive normal number.

    The mantissa is at least the root of a half, so that 1 has the exponent 0, and logarithms are exact near it.
    """

    def of(bits: Expression) -> Expression:
        exponent = (bits - _SQRT_HALF_BITS) >> MANTISSA_BITS
        return bound(exponent, lambda n: body(tirx.reinterpret("float32", bits - (n << MANTISSA_BITS)), n))

    return bound(tirx.reinterpret("int32", x), of)


def scaled_to_normal(x: Expression) -> tuple[Expression, Expression]:
    """``x`` or, if it is subnormal, that times a power of two, and the exponent of this power; ``x`` is a variable."""
    is_small = x < float32(_SMALLEST_NORMAL)
    scale = tirx.Select(is_small, float32(float(_SUBNORMAL_SCALE)), float32(0.0))
    return tirx.Select(is_small, x * float32(2.0**_SUBNORMAL_SCALE), x), scale


def sign_of(x: Expression) -> Expression:
    """The sign of ``x`` as a bit of an int32, for ``with_sign``; zeros have one as well."""
    return tirx.reinterpret("int32", x) & tirx.IntImm("int32", _SIGN_BIT)


def with_sign(magnitude: Expression, sign: Expression) -> Expression:
    """``magnitude``, negated if the bit ``sign`` is set."""
    return tirx.reinterpret("float32", tirx.reinterpret("int32", magnitude) ^ sign)


def odd(x: Expression, of_magnitude: Callable[[Expression], Expression]) -> Expression:
    """An odd function, by its values for magnitudes."""
    return bound(x, lambda given: with_sign(bound(tirx.abs(given), of_magnitude), sign_of(given)))
