"""Sines, tangents and their inverses of float32, as ``expressions`` has other functions.

The polynomials are those of Cephes (S. L. Moshier, 1989).
"""

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
    odd,
    polynomial,
    sign_of,
    with_sign,
)

_TWO_BY_PI: Final = 0.6366197723675814
_PARTS_OF_HALF_PI: Final = (1.570796012878418, 3.139164164167596e-07, 6.223371969669989e-14, 2.0222662487959506e-21)
"""Parts of pi / 2, whose sum it is within 2 to the power of -118. The first three have 22 bits: times a number of
quarter turns below 2 to the power of 31 they are exact.
"""
_HIGHEST_ANGLE: Final = 2.0**31
_HALF_PI: Final = 1.57079637050628662
_HALF_PI_REST: Final = -4.37113900018624283e-8
"""Pi / 2 less the float32 that is next to it."""
_TANGENT_OF_EIGHTH: Final = 0.414213562373095
_TANGENT_OF_THREE_EIGHTHS: Final = 2.414213562373095
_SCALED_FROM: Final = 2.0**126

_SIN: Final = (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4)
_COS: Final = (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5)
_ATAN: Final = (-3.33329491539e-1, 1.99777106478e-1, -1.38776856032e-1, 8.05374449538e-2)
_ASIN: Final = (1.6666752422e-1, 7.4953002686e-2, 4.5470025998e-2, 2.4181311049e-2, 4.2163199048e-2)


def sin(x: Expression) -> Expression:
    """The sine, within 2 units up to 2 to the power of 31, and that of this angle beyond; NaN of infinities.

    Beyond, neighbouring numbers of float32 are at least 40 turns apart.
    """
    return _of_angle(x, 0, _wave)


def cos(x: Expression) -> Expression:
    """The cosine, as accurate as the sine."""
    return _of_angle(x, 1, _wave)


def tan(x: Expression) -> Expression:
    """The tangent, within 4 units of angles as those of the sine."""
    return _of_angle(x, 0, _tangent)


def atan(x: Expression) -> Expression:
    """The inverse tangent, within 3 units."""
    return odd(x, lambda a: _angle_of_quotient(a, float32(1.0)))


def atan2(y: Expression, x: Expression) -> Expression:
    """The angle of the point ``(x, y)``, within 3 units; of zeros and infinities as IEEE 754 says."""

    def of(y: Expression, x: Expression) -> Expression:
        # Twice a large number would be infinite.
        factor = tirx.Select(tirx.max(tirx.abs(x), tirx.abs(y)) >= float32(_SCALED_FROM), float32(0.25), float32(1.0))
        first = bound(factor, lambda by: _angle_of_quotient(tirx.abs(y) * by, tirx.abs(x) * by))
        is_left = tirx.reinterpret("int32", x) < 0
        angle = bound(first, lambda a: tirx.Select(is_left, _less_than_half_turn(a), a))
        return tirx.Select(tirx.isnan(x) | tirx.isnan(y), not_a_number(), with_sign(angle, sign_of(y)))

    return bound(y, lambda rise: bound(x, lambda run: of(rise, run)))


def asin(x: Expression) -> Expression:
    """The inverse sine, within 3 units; NaN beyond 1 and -1."""

    def of(a: Expression) -> Expression:
        return _inverse_sine(a, lambda p: tirx.Select(a > 0.5, _less_than_quarter_turn(2.0 * p), p))

    return odd(x, of)


def acos(x: Expression) -> Expression:
    """The inverse cosine, within 3 units; NaN beyond 1 and -1."""

    def of(given: Expression) -> Expression:
        def of_inverse(p: Expression) -> Expression:
            outer = tirx.Select(given < 0.0, _less_than_half_turn(2.0 * p), 2.0 * p)
            inner = _less_than_quarter_turn(with_sign(p, sign_of(given)))
            return tirx.Select(tirx.abs(given) > 0.5, outer, inner)

        return _inverse_sine(tirx.abs(given), of_inverse)

    return bound(x, of)


def _of_angle(
    x: Expression, quarter_turns: int, value: Callable[[Expression, Expression, Expression], Expression]
) -> Expression:
    """``value`` of three numbers, of which the sine and cosine of an angle follow.

    They are the quarter turns in the angle, ``quarter_turns`` more, and the sine and cosine of what is left without
    them, which is at most an eighth turn.
    """
    limit = float32(_HIGHEST_ANGLE)

    def of(given: Expression) -> Expression:
        return bound(given * float64(_TWO_BY_PI) + float64(TO_INTEGER_FLOAT64), lambda n: of_parts(given, n))

    def of_parts(given: Expression, shifted: Expression) -> Expression:
        turns = (tirx.reinterpret("int64", shifted) & 3).astype("int32") + quarter_turns
        rest = bound(shifted - float64(TO_INTEGER_FLOAT64), lambda n: _less(given, n))
        return bound(turns, lambda q: bound(rest.astype("float32"), lambda r: bound(r * r, lambda s: of_rest(q, r, s))))

    def of_rest(turns: Expression, rest: Expression, square: Expression) -> Expression:
        sine = polynomial(square, _SIN) * square * rest + rest
        cosine = polynomial(square, _COS) * (square * square) - square * 0.5 + 1.0
        return value(turns, sine, cosine)

    found = bound(tirx.max(-limit, tirx.min(limit, x)).astype("float64"), of)
    return tirx.Select(tirx.abs(x) > float32(LARGEST), not_a_number(), found)


def _wave(turns: Expression, sine: Expression, cosine: Expression) -> Expression:
    return with_sign(tirx.Select((turns & 1) == 0, sine, cosine), (turns & 2) << 30)


def _tangent(turns: Expression, sine: Expression, cosine: Expression) -> Expression:
    is_turned = (turns & 1) == 1

    def quotient(sine: Expression, cosine: Expression) -> Expression:
        return tirx.Select(is_turned, -cosine, sine) / tirx.Select(is_turned, sine, cosine)

    return bound(sine, lambda s: bound(cosine, lambda c: quotient(s, c)))


def _less(angle: Expression, turns: Expression) -> Expression:
    """An angle without some quarter turns, in float64."""
    for each in _PARTS_OF_HALF_PI:
        angle = angle - turns * float64(each)
    return angle


def _angle_of_quotient(above: Expression, below: Expression) -> Expression:
    """The inverse tangent of a quotient of magnitudes, which may both be 0 or infinite, in one division."""

    def of(n: Expression, d: Expression) -> Expression:
        is_middle = tirx.Select(n == d, n > 0.0, n > d * float32(_TANGENT_OF_EIGHTH))
        is_high = n > d * float32(_TANGENT_OF_THREE_EIGHTHS)
        difference = tirx.Select(n == d, float32(0.0), n - d)
        reduced = tirx.Select(is_high, -d, tirx.Select(is_middle, difference, n))
        divisor = tirx.Select(is_high, n, tirx.Select(is_middle, n + d, d))
        start = tirx.Select(is_high, float32(_HALF_PI), tirx.Select(is_middle, float32(_HALF_PI / 2), float32(0.0)))
        quotient = reduced / tirx.Select(divisor == 0.0, float32(1.0), divisor)
        return bound(start, lambda angle: bound(quotient, lambda q: bound(q * q, lambda s: summed(angle, q, s))))

    def summed(angle: Expression, quotient: Expression, square: Expression) -> Expression:
        rest = angle * float32(_HALF_PI_REST / _HALF_PI)
        return angle + (polynomial(square, _ATAN) * square * quotient + rest + quotient)

    return bound(above, lambda n: bound(below, lambda d: of(n, d)))


def _inverse_sine(a: Expression, value: Callable[[Expression], Expression]) -> Expression:
    """``value`` of the inverse sine of ``a``, or of half of its difference to a quarter turn if ``a`` is above a half.

    ``a`` is evaluated repeatedly.
    """
    is_high = a > 0.5
    square = tirx.Select(is_high, (1.0 - a) * 0.5, a * a)

    def of(s: Expression) -> Expression:
        root = tirx.Select(is_high, tirx.sqrt(s), a)
        return bound(bound(root, lambda r: polynomial(s, _ASIN) * s * r + r), value)

    return bound(square, of)


def _less_than_quarter_turn(angle: Expression) -> Expression:
    return bound(angle, lambda a: (float32(_HALF_PI) - a) + float32(_HALF_PI_REST))


def _less_than_half_turn(angle: Expression) -> Expression:
    return bound(angle, lambda a: (float32(2 * _HALF_PI) - a) + float32(2 * _HALF_PI_REST))
