"""Complex numbers as their real and imaginary parts: Relax has no complex element types."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import relax

Emit: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class ComplexParts:
    """The real and the imaginary parts of complex numbers, as Relax expressions.

    Operands of arithmetic may have an imaginary part of None, which is zero.
    """

    real: Any
    imaginary: Any


def of_pairs(data: Any, emit: Emit) -> ComplexParts:
    """The numbers whose parts are the elements of the last axis, which has two."""
    return ComplexParts(*(emit(relax.op.take(data, relax.const(each, "int64"), axis=-1)) for each in (0, 1)))


def as_pairs(value: ComplexParts, emit: Emit) -> Any:
    """The parts of the numbers along a new last axis."""
    return emit(relax.op.concat([emit(relax.op.expand_dims(each, -1)) for each in (value.real, value.imaginary)], -1))


def multiplied(
    left: ComplexParts, right: ComplexParts, emit: Emit, multiply: Callable[[Any, Any], Any] = relax.op.multiply
) -> ComplexParts:
    """Products of numbers, or of matrices by ``multiply``; one of the operands has an imaginary part."""
    real = emit(multiply(left.real, right.real))
    if right.imaginary is None:
        return ComplexParts(real, emit(multiply(left.imaginary, right.real)))
    across = emit(multiply(left.real, right.imaginary))
    if left.imaginary is None:
        return ComplexParts(real, across)
    real = emit(relax.op.subtract(real, emit(multiply(left.imaginary, right.imaginary))))
    return ComplexParts(real, emit(relax.op.add(across, emit(multiply(left.imaginary, right.real)))))


def divided(left: ComplexParts, right: ComplexParts, emit: Emit) -> ComplexParts:
    """Quotients; one of the operands has an imaginary part."""
    if right.imaginary is None:
        return ComplexParts(*(emit(relax.op.divide(each, right.real)) for each in (left.real, left.imaginary)))
    product = multiplied(left, conjugate(right, emit), emit)
    square = squared_magnitude(right, emit)
    return ComplexParts(*(emit(relax.op.divide(each, square)) for each in (product.real, product.imaginary)))


def conjugate(value: ComplexParts, emit: Emit) -> ComplexParts:
    """The numbers with the opposite imaginary part."""
    return ComplexParts(value.real, emit(relax.op.negative(value.imaginary)))


def squared_magnitude(value: ComplexParts, emit: Emit) -> Any:
    """The square of the distance from zero."""
    return emit(relax.op.add(*(emit(relax.op.multiply(each, each)) for each in (value.real, value.imaginary))))


def magnitude(value: ComplexParts, emit: Emit) -> Any:
    """The distance from zero."""
    return emit(relax.op.sqrt(squared_magnitude(value, emit)))


def phase(value: ComplexParts, emit: Emit) -> Any:
    """The angle, from minus pi to pi."""
    return emit(relax.op.atan2(value.imaginary, value.real))


def on_circle(radius: Any, angle: Any, emit: Emit) -> ComplexParts:
    """The numbers at a distance from zero and an angle."""
    return ComplexParts(*(emit(relax.op.multiply(radius, emit(each(angle)))) for each in (relax.op.cos, relax.op.sin)))


def exponential(value: ComplexParts, emit: Emit) -> ComplexParts:
    """The exponential function."""
    return on_circle(emit(relax.op.exp(value.real)), value.imaginary, emit)


def logarithm(value: ComplexParts, emit: Emit) -> ComplexParts:
    """The principal value of the natural logarithm."""
    return ComplexParts(emit(relax.op.log(magnitude(value, emit))), phase(value, emit))


def power(base: ComplexParts, exponent: ComplexParts, emit: Emit) -> ComplexParts:
    """The exponential of the exponent times the logarithm of the base; 1 for an exponent of zero, else 0 of zero."""
    zero, one = (relax.const(each, str(base.real.ty.dtype)) for each in (0.0, 1.0))
    of_zero = emit(relax.op.equal(magnitude(base, emit), zero))
    by_zero = emit(relax.op.equal(magnitude(exponent, emit), zero))
    safe = ComplexParts(emit(relax.op.where(of_zero, one, base.real)), base.imaginary)
    result = exponential(multiplied(exponent, logarithm(safe, emit), emit), emit)
    real = emit(relax.op.where(of_zero, emit(relax.op.astype(by_zero, str(base.real.ty.dtype))), result.real))
    return ComplexParts(real, emit(relax.op.where(of_zero, zero, result.imaginary)))


def square_root(value: ComplexParts, emit: Emit) -> ComplexParts:
    """The principal square root, whose real part is not negative.

    Half the sum of the magnitude and of the real part would lose digits where that is negative, so the larger part of
    the root is computed, and the other one from it.
    """
    zero, half = (relax.const(each, str(value.real.ty.dtype)) for each in (0.0, 0.5))
    total = emit(relax.op.add(magnitude(value, emit), emit(relax.op.abs(value.real))))
    larger = emit(relax.op.sqrt(emit(relax.op.multiply(total, half))))
    is_zero = emit(relax.op.equal(larger, zero))
    smaller = emit(relax.op.divide(emit(relax.op.multiply(value.imaginary, half)), larger))
    smaller = emit(relax.op.where(is_zero, zero, smaller))
    is_right = emit(relax.op.greater_equal(value.real, zero))
    below = emit(relax.op.less(value.imaginary, zero))
    turned = emit(relax.op.where(below, emit(relax.op.negative(larger)), larger))
    real = emit(relax.op.where(is_right, larger, emit(relax.op.abs(smaller))))
    return ComplexParts(real, emit(relax.op.where(is_right, smaller, turned)))
