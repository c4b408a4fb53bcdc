"""Hyperbolic sines, cosines and inverses of float32, as ``expressions`` has other functions.

The polynomials are those of Cephes (S. L. Moshier, 1989).
"""

import math
from typing import Final

from tvm import tirx

from tunefarm_search.relax.elementary.expressions import half_of_exp, log
from tunefarm_search.relax.elementary.terms import Expression, bound, float32, float64, odd, polynomial

_LN2: Final = 0.693147180559945
_DOUBLED_FROM: Final = 1e9
"""Above, the root of the square and 1, or less 1, is the number itself in float32."""

_SINH: Final = (1.66667160211e-1, 8.33028376239e-3, 2.03721912945e-4)
_SINH_OF_FLOAT64: Final = tuple(1 / math.factorial(2 * k + 1) for k in range(10))
_ASINH: Final = (-1.6666288134e-1, 7.4847586088e-2, -4.2699340972e-2, 2.0122003309e-2)
_ACOSH: Final = (1.4142135263e0, -1.1784741703e-1, 2.6454905019e-2, -7.5272886713e-3, 1.7596881071e-3)
_ATANH: Final = (3.33337300303e-1, 1.99782164500e-1, 1.46691431730e-1, 8.24370301058e-2, 1.81740078349e-1)


def sinh(x: Expression) -> Expression:
    """The hyperbolic sine, within 4 units."""

    def of(a: Expression) -> Expression:
        high = bound(half_of_exp(a), lambda half: half - 0.25 / half)
        return tirx.Select(a > 1.0, high, _odd_polynomial(a, _SINH))

    return odd(x, of)


def cosh(x: Expression) -> Expression:
    """The hyperbolic cosine, within 4 units."""
    return bound(tirx.abs(x), lambda a: bound(half_of_exp(a), lambda half: half + 0.25 / half))


def sinh_of_float64(x: Expression) -> Expression:
    """``sinh`` of float64, within 4 units up to 709."""

    def of(given: Expression) -> Expression:
        low = bound(given * given, lambda s: polynomial(s, _SINH_OF_FLOAT64, float64) * given)
        high = bound(tirx.exp(given), lambda e: e * float64(0.5) - float64(0.5) / e)
        return tirx.Select(tirx.abs(given) > float64(1.0), high, low)

    return bound(x, of)


def cosh_of_float64(x: Expression) -> Expression:
    """``cosh`` of float64, within 4 units up to 709."""
    return bound(tirx.exp(x), lambda e: e * float64(0.5) + float64(0.5) / e)


def asinh(x: Expression) -> Expression:
    """The inverse hyperbolic sine, within 4 units."""

    def of(a: Expression) -> Expression:
        return tirx.Select(a > 0.5, _log_of_sum(a, a * a + 1.0), _odd_polynomial(a, _ASINH))

    return odd(x, of)


def acosh(x: Expression) -> Expression:
    """The inverse hyperbolic cosine, within 4 units; NaN below 1."""

    def of(given: Expression) -> Expression:
        low = bound(given - 1.0, lambda z: tirx.sqrt(z) * polynomial(z, _ACOSH))
        return tirx.Select(given > 1.5, _log_of_sum(given, given * given - 1.0), low)

    return bound(x, of)


def atanh(x: Expression) -> Expression:
    """The inverse hyperbolic tangent, within 4 units; NaN beyond 1 and -1."""

    def of(a: Expression) -> Expression:
        return tirx.Select(a > 0.5, log((1.0 + a) / (1.0 - a)) * 0.5, _odd_polynomial(a, _ATANH))

    return odd(x, of)


def _odd_polynomial(x: Expression, coefficients: tuple[float, ...]) -> Expression:
    """``x`` and a polynomial of its square times its cube."""
    return bound(x * x, lambda s: polynomial(s, coefficients) * s * x + x)


def _log_of_sum(x: Expression, square: Expression) -> Expression:
    """The logarithm of ``x`` and the root of ``square``, or of twice a large ``x``, whose square may be infinite."""
    is_large = x > float32(_DOUBLED_FROM)
    added = tirx.Select(is_large, float32(_LN2), float32(0.0))
    return log(tirx.Select(is_large, x, x + tirx.sqrt(square))) + added
