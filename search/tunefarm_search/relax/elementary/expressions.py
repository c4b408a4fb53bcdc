"""Elementary functions of float32 as TIR expressions of arithmetic, minima, maxima and bits.

Each takes an expression and returns one. It evaluates its argument once, has no branches and calls nothing, so that it
compiles to vector instructions of any width. NaN gives NaN. The bounds of errors are in units in the last place of the
correctly rounded result, and hold with and without fused multiplication and addition.

The polynomials for ``exp`` and ``log`` are those of Cephes (S. L. Moshier, 1989), reduced as in W. J. Cody and W.
Waite, "Software Manual for the Elementary Functions" (1980). The quotients for ``tanh`` and ``erf`` are those of Eigen.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tvm import tirx

Expression = Any
"""A TIR expression of type float32."""

_LOG2_E: Final = 1.44269504088896341
_LN2_HIGH: Final = 0.693359375
"""The leading nine bits of ln 2: times an exponent it is exact."""
_LN2_LOW: Final = -2.12194440e-4
_TO_INTEGER: Final = 12582912.0
"""1.5 times 2 to the power of 23: a sum with it has the nearest integer in its last bits."""
_TO_INTEGER_BITS: Final = 0x4B400000
_LOWEST_EXP: Final = -87.5
_HIGHEST_EXP: Final = 89.0
_MANTISSA_BITS: Final = 23
_BIAS: Final = 127
_SQRT_HALF_BITS: Final = 0x3F3504F3
_SMALLEST_NORMAL: Final = 2.0**-126
_LARGEST: Final = (2.0 - 2.0**-23) * 2.0**127
_NEGATIVE_INFINITY_BITS: Final = -0x800000
_NAN_BITS: Final = 0x7FC00000
_SUBNORMAL_SCALE: Final = 25
_TWO_BY_PI: Final = 0.6366197723675814
_HALF_PI: Final = (1.570796012878418, 3.139164164167596e-07, 6.223371969669989e-14, 2.0222662487959506e-21)
"""Parts of pi / 2, whose sum it is within 2 to the power of -118. The first three have 22 bits: times a number of
quarter turns below 2 to the power of 31 they are exact.
"""
_HIGHEST_ANGLE: Final = 2.0**31
_TO_INTEGER_DOUBLE: Final = 6755399441055744.0
"""As ``_TO_INTEGER``, of float64: 1.5 times 2 to the power of 52."""
_TANH_ONE: Final = 7.90531110763549805
_ERF_ONE: Final = 3.832506856900711

_EXP: Final = (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)
_LOG: Final = (
    *(3.3333331174e-1, -2.4999993993e-1, 2.0000714765e-1, -1.6668057665e-1, 1.4249322787e-1),
    *(-1.2420140846e-1, 1.1676998740e-1, -1.1514610310e-1, 7.0376836292e-2),
)
_SIN: Final = (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4)
_COS: Final = (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5)
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
    return exp_without_overflow(tirx.min(_float(_HIGHEST_EXP), x))


def exp_without_overflow(x: Expression) -> Expression:
    """``exp`` of an argument that is at most 89, or NaN: one operation of twenty less."""
    limited = tirx.max(_float(_LOWEST_EXP), x)
    return _bound(limited, lambda given: _bound(given * _float(_LOG2_E) + _TO_INTEGER, lambda n: _exp(given, n)))


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
    return _bound(x, _log)


def sin(x: Expression) -> Expression:
    """The sine, within 2 units up to 2 to the power of 31, and that of this angle beyond; NaN of infinities.

    Beyond, neighbouring numbers of float32 are at least 40 turns apart.
    """
    return _wave(x, 0)


def cos(x: Expression) -> Expression:
    """The cosine, as accurate as the sine."""
    return _wave(x, 1)


def power(x: Expression, exponent: int) -> Expression:
    """A product of 2 to 4 factors, within 2 units."""

    def of(given: Expression) -> Expression:
        if exponent == 4:
            return _bound(given * given, lambda square: square * square)
        return given * given if exponent == 2 else given * given * given

    return _bound(x, of)


def _exp(x: Expression, shifted: Expression) -> Expression:
    """The exponential, with the nearest integer to ``x / ln 2`` in the last bits of ``shifted``."""
    # Twice the exponential of the rest, times 2 to the power of one less: that is a normal number, or 0 for the lowest.
    whole = tirx.reinterpret("int32", shifted) - (_TO_INTEGER_BITS + 1)
    rest = _bound(shifted - _TO_INTEGER, lambda n: x - n * _float(_LN2_HIGH) - n * _float(_LN2_LOW))
    doubled = tuple(2.0 * each for each in _EXP)
    return _bound(rest, lambda r: (_polynomial(r, doubled) * (r * r) + (r * 2.0 + 2.0)) * _power_of_two(whole))


def _log(x: Expression) -> Expression:
    is_small = x < _float(_SMALLEST_NORMAL)
    normal = tirx.Select(is_small, x * _float(2.0**_SUBNORMAL_SCALE), x)

    def of(bits: Expression) -> Expression:
        # The mantissa is at least the root of a half, so that 1 has the exponent 0 and the result is exact near it.
        exponent = (bits - _SQRT_HALF_BITS) >> _MANTISSA_BITS
        return _bound(exponent, lambda n: _log_of_parts(bits - (n << _MANTISSA_BITS), n))

    def _log_of_parts(mantissa: Expression, exponent: Expression) -> Expression:
        scale = tirx.Select(is_small, _float(float(_SUBNORMAL_SCALE)), _float(0.0))
        count = exponent.astype("float32") - scale
        return _bound(tirx.reinterpret("float32", mantissa) - 1.0, lambda r: _bound(count, lambda n: summed(r, n)))

    def summed(r: Expression, n: Expression) -> Expression:
        square = r * r
        tail = _polynomial(r, _LOG) * (square * r) + n * _float(_LN2_LOW) - square * 0.5
        return tail + r + n * _float(_LN2_HIGH)

    finite = _bound(tirx.reinterpret("int32", normal), of)
    not_infinite = tirx.Select(x > _float(_LARGEST), x, finite)
    not_zero = tirx.Select(x > 0.0, not_infinite, _of_bits(_NEGATIVE_INFINITY_BITS))
    return tirx.Select(x < 0.0, _of_bits(_NAN_BITS), tirx.Select(tirx.isnan(x), x, not_zero))


def _wave(x: Expression, quarter_turns: int) -> Expression:
    """The sine of an angle and some quarter turns."""
    limit = _float(_HIGHEST_ANGLE)

    def of(given: Expression) -> Expression:
        return _bound(given * _double(_TWO_BY_PI) + _double(_TO_INTEGER_DOUBLE), lambda n: of_parts(given, n))

    def of_parts(given: Expression, shifted: Expression) -> Expression:
        turns = (tirx.reinterpret("int64", shifted) & 3).astype("int32") + quarter_turns
        rest = _bound(shifted - _double(_TO_INTEGER_DOUBLE), lambda n: _less(given, n))
        return _bound(
            turns, lambda q: _bound(rest.astype("float32"), lambda r: _bound(r * r, lambda s: turned(q, r, s)))
        )

    def turned(turns: Expression, rest: Expression, square: Expression) -> Expression:
        sine = _polynomial(square, _SIN) * square * rest + rest
        cosine = _polynomial(square, _COS) * (square * square) - square * 0.5 + 1.0
        value = tirx.Select((turns & 1) == 0, sine, cosine)
        return tirx.reinterpret("float32", tirx.reinterpret("int32", value) ^ ((turns & 2) << 30))

    found = _bound(tirx.max(-limit, tirx.min(limit, x)).astype("float64"), of)
    return tirx.Select(tirx.abs(x) > _float(_LARGEST), _of_bits(_NAN_BITS), found)


def _less(angle: Expression, turns: Expression) -> Expression:
    """An angle without some quarter turns, in float64."""
    for each in _HALF_PI:
        angle = angle - turns * _double(each)
    return angle


def _odd_quotient(x: Expression, one: float, above: Sequence[float], below: Sequence[float]) -> Expression:
    """An odd function as its argument times a quotient of polynomials of its square; exactly 1 or -1 beyond ``one``.

    Exactly, because GELU multiplies the difference to 1 by any number.
    """

    def of(given: Expression) -> Expression:
        quotient = _bound(given * given, lambda s: _polynomial(s, above) / _polynomial(s, below))
        within = tirx.max(_float(-1.0), tirx.min(_float(1.0), given * quotient))
        not_high = tirx.Select(given > _float(one), _float(1.0), within)
        return tirx.Select(given < _float(-one), _float(-1.0), not_high)

    return _bound(x, of)


def _polynomial(x: Expression, coefficients: Sequence[float]) -> Expression:
    """Horner's scheme, with the coefficient of degree 0 first."""
    *others, found = (_float(each) for each in coefficients)
    for each in reversed(others):
        found = found * x + each
    return found


def _power_of_two(exponent: Expression) -> Expression:
    return tirx.reinterpret("float32", (exponent + _BIAS) << _MANTISSA_BITS)


def _of_bits(bits: int) -> Expression:
    """A number that JSON has no notation for, and with it no file of TVM's that other programs read."""
    return tirx.reinterpret("float32", tirx.IntImm("int32", bits))


def _bound(value: Expression, body: Callable[[Expression], Expression]) -> Expression:
    """``body`` of a variable that holds the value: an expression is a tree, and would compute the value repeatedly."""
    variable = tirx.Var("v", value.ty)
    return tirx.Let(variable, value, body(variable))


def _float(value: float) -> Expression:
    return tirx.FloatImm("float32", value)


def _double(value: float) -> Expression:
    return tirx.FloatImm("float64", value)
