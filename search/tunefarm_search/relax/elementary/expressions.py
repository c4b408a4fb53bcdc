"""Elementary functions of float32 as TIR expressions of arithmetic, minima, maxima and bits.

Each takes an expression and returns one. It evaluates its argument once, has no branches and calls nothing, so that it
compiles to vector instructions of any width. NaN gives NaN. The bounds of errors are in units in the last place of the
correctly rounded result, and hold with and without fused multiplication and addition.

The polynomials for ``exp`` and ``log`` are those of Cephes (S. L. Moshier, 1989), reduced as in W. J. Cody and W.
Waite, "Software Manual for the Elementary Functions" (1980). The quotients for ``tanh`` and ``erf`` are those of Eigen.
"""

from collections.abc import Sequence
from typing import Final

from tvm import tirx

from tunefarm_search.relax.elementary.terms import (
    LARGEST,
    MANTISSA_BITS,
    Expression,
    bound,
    float32,
    not_a_number,
    of_bits,
    parted,
    polynomial,
    scaled_to_normal,
)

_LOG2_E: Final = 1.44269504088896341
_LN2_HIGH: Final = 0.693359375
"""The leading nine bits of ln 2: times an exponent it is exact."""
_LN2_LOW: Final = -2.12194440e-4
_TO_INTEGER: Final = 12582912.0
"""1.5 times 2 to the power of 23: a sum with it has the nearest integer in its last bits."""
_TO_INTEGER_BITS: Final = 0x4B400000
_LOWEST_EXP: Final = -87.5
_HIGHEST_EXP: Final = 89.0
_HIGHEST_HALF_OF_EXP: Final = 90.0
_BIAS: Final = 127
_NEGATIVE_INFINITY_BITS: Final = -0x800000
_TANH_ONE: Final = 7.90531110763549805
_ERF_ONE: Final = 3.832506856900711

_EXP: Final = (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)
_LOG: Final = (
    *(3.3333331174e-1, -2.4999993993e-1, 2.0000714765e-1, -1.6668057665e-1, 1.4249322787e-1),
    *(-1.2420140846e-1, 1.1676998740e-1, -1.1514610310e-1, 7.0376836292e-2),
)
_TANH_ABOVE: Final = (
    *(4.89352455891786e-03, 6.37261928875436e-04, 1.48572235717979e-05, 5.12229709037114e-08),
    *(-8.60467152213735e-11, 2.00018790482477e-13, -2.76076847742355e-16),
)
_TANH_BELOW: Final = (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06)
_ERF_ABOVE: Final = (
    *(-1.60960333262415e-02, -2.95459980854025e-03, -7.34990630326855e-04, -5.69250639462346e-05),
    *(-2.10102402082508e-06, 2.77068142495902e-08, -2.72614225801306e-10),
)
_ERF_BELOW: Final = (
    *(-1.42647390514189e-02, -7.37332916720468e-03, -1.68282697438203e-03, -2.13374055278905e-04),
    -1.45660718464996e-05,
)


def exp(x: Expression) -> Expression:
    """The exponential, within 2 units; infinity above 88.7, and 0 below -87.

    Processors take up to a hundred times as long for subnormal numbers, and attention masks many elements.
    """
    return exp_without_overflow(tirx.min(float32(_HIGHEST_EXP), x))


def exp_without_overflow(x: Expression) -> Expression:
    """``exp`` of an argument that is at most 89, or NaN: one operation of twenty less."""
    return _exp_of_limited(tirx.max(float32(_LOWEST_EXP), x), halvings=0)


def half_of_exp(x: Expression) -> Expression:
    """``exp(x) / 2`` of an argument that is not negative, within 2 units; infinity from 89.8 on."""
    return _exp_of_limited(tirx.min(float32(_HIGHEST_HALF_OF_EXP), x), halvings=1)


def sigmoid(x: Expression) -> Expression:
    """``1 / (1 + exp(-x))``, within 4 units; 0 below -88.7."""
    return 1.0 / (exp(-x) + 1.0)


def tanh(x: Expression) -> Expression:
    """The hyperbolic tangent, within 7 units."""
    return _odd_quotient(x, _TANH_ONE, _TANH_ABOVE, _TANH_BELOW)


def erf(x: Expression) -> Expression:
    """The error function, within 7 units."""
    return _odd_quotient(x, _ERF_ONE, _ERF_ABOVE, _ERF_BELOW)


def log(x: Expression) -> Expression:
    """The natural logarithm, within 2 units; minus infinity of 0, NaN of negative numbers, and of subnormal ones."""
    return bound(x, _log)


def _exp_of_limited(x: Expression, halvings: int) -> Expression:
    def of(given: Expression) -> Expression:
        return bound(given * float32(_LOG2_E) + _TO_INTEGER, lambda n: _exp(given, n, halvings))

    return bound(x, of)


def _exp(x: Expression, shifted: Expression, halvings: int) -> Expression:
    """The exponential, with the nearest integer to ``x / ln 2`` in the last bits of ``shifted``, halved repeatedly."""
    # Twice the exponential of the rest, times 2 to the power of one less: that is a normal number, or 0 for the lowest.
    whole = tirx.reinterpret("int32", shifted) - (_TO_INTEGER_BITS + 1 + halvings)
    rest = bound(shifted - _TO_INTEGER, lambda n: x - n * float32(_LN2_HIGH) - n * float32(_LN2_LOW))
    doubled = tuple(2.0 * each for each in _EXP)
    return bound(rest, lambda r: (polynomial(r, doubled) * (r * r) + (r * 2.0 + 2.0)) * _power_of_two(whole))


def _log(x: Expression) -> Expression:
    normal, scale = scaled_to_normal(x)

    def of_parts(mantissa: Expression, exponent: Expression) -> Expression:
        count = exponent.astype("float32") - scale
        return bound(mantissa - 1.0, lambda r: bound(count, lambda n: summed(r, n)))

    def summed(r: Expression, n: Expression) -> Expression:
        square = r * r
        tail = polynomial(r, _LOG) * (square * r) + n * float32(_LN2_LOW) - square * 0.5
        return tail + r + n * float32(_LN2_HIGH)

    not_infinite = tirx.Select(x > float32(LARGEST), x, parted(normal, of_parts))
    not_zero = tirx.Select(x > 0.0, not_infinite, of_bits(_NEGATIVE_INFINITY_BITS))
    return tirx.Select(x < 0.0, not_a_number(), tirx.Select(tirx.isnan(x), x, not_zero))


def _odd_quotient(x: Expression, one: float, above: Sequence[float], below: Sequence[float]) -> Expression:
    """An odd function as its argument times a quotient of polynomials of its square; exactly 1 or -1 beyond ``one``.

    Exactly, because GELU multiplies the difference to 1 by any number.
    """

    def of(given: Expression) -> Expression:
        quotient = bound(given * given, lambda s: polynomial(s, above) / polynomial(s, below))
        within = tirx.max(float32(-1.0), tirx.min(float32(1.0), given * quotient))
        not_high = tirx.Select(given > float32(one), float32(1.0), within)
        return tirx.Select(given < float32(-one), float32(-1.0), not_high)

    return bound(x, of)


def _power_of_two(exponent: Expression) -> Expression:
    return tirx.reinterpret("float32", (exponent + _BIAS) << MANTISSA_BITS)
