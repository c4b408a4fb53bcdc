"""Elementwise operators, reductions and scans, in the element types in which torch computes them."""

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import fx
from tvm import relax

from tunefarm.frontend.expressions.special_functions import of_elements
from tunefarm.frontend.pytorch.operators.nodes import (
    HALVES,
    MAX_PAIRED,
    Convert,
    argument,
    as_kind,
    scaled,
    standing_for,
    value_of,
)

_LOWEST: Final = -3.4e38
_HIGHEST: Final = float(torch.finfo(torch.float32).max)


def reduction(reduce: Callable[..., Any]) -> Convert:
    """Computed in the element type of the result, which is a wider one for products of integers."""

    def convert(node: fx.Node, importer: Any) -> Any:
        axes = argument(node, 1, "dim", ())
        axes = [axes] if isinstance(axes, int) else list(axes)
        keep, operand = argument(node, 2, "keepdim", False), _operand(node.args[0], node, importer)
        axes = axes if operand.ty.ndim else []  # torch takes a single number for an axis of one
        return importer.block_builder.emit(reduce(operand, axes or None, keep))

    return convert


def _operand(operand: Any, node: fx.Node, importer: Any) -> Any:
    """An operand in the element type of the result; bytes in place of truth values, of which TVM takes no sums."""
    dtype = value_of(node).dtype
    kind = "int8" if dtype == torch.bool else str(dtype).removeprefix("torch.")
    if not isinstance(operand, fx.Node):
        return relax.const(operand, kind)
    return as_kind(kind, importer.env[operand], importer.block_builder.emit)


def scan(accumulate: Callable[..., Any]) -> Convert:
    """Sums or products of all elements up to each one of an axis, in the element type of the result."""

    def convert(node: fx.Node, importer: Any) -> Any:
        data = _operand(node.args[0], node, importer)
        return importer.block_builder.emit(accumulate(data, argument(node, 1, "dim"))) if data.ty.ndim else data

    return convert


def any_set(node: fx.Node, importer: Any) -> Any:
    """Whether elements differ from zero, along some axes or all."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    axes, keep = argument(node, 1, "dim"), argument(node, 2, "keepdim", False)
    kind = str(data.ty.dtype)
    is_set = data if kind == "bool" else emit(relax.op.not_equal(data, relax.const(0, kind)))
    return emit(relax.op.max(emit(relax.op.astype(is_set, "int8")), axes, keep))


def with_factor(combine: Callable[..., Any], plain: Callable[..., Any], *, swaps: bool = False) -> Convert:
    """Sums and differences. TVM's converter ignores ``alpha``, the factor of the second operand."""

    def convert(node: fx.Node, importer: Any) -> Any:
        alpha = argument(node, 2, "alpha", 1)
        if alpha == 1 and not swaps:
            return importer._binary_op(combine, plain)(node)  # noqa: SLF001 - the converter in TVM's table
        first, second = (_operand(each, node, importer) for each in node.args[:2])
        emit = importer.block_builder.emit
        if swaps:
            return emit(combine(second, scaled(first, alpha, emit)))
        return emit(combine(first, scaled(second, alpha, emit)))

    return convert


def product_or_quotient(combine: Callable[..., Any], plain: Callable[..., Any]) -> Convert:
    """Products and quotients; in float32, as in torch, those of halves and a number that halves do not hold.

    TVM's converter makes the number infinity or zero: 0 times the lowest float32, as in masks, is not a number then.
    """

    def convert(node: fx.Node, importer: Any) -> Any:
        dtype = value_of(node).dtype
        numbers = [abs(each) for each in node.args[:2] if isinstance(each, int | float)]
        if dtype not in HALVES or not any(0 < each < math.inf and not _holds(dtype, each) for each in numbers):
            return importer._binary_op(combine, plain)(node)  # noqa: SLF001 - the converter in TVM's table
        emit, kind = importer.block_builder.emit, str(dtype).removeprefix("torch.")
        operands = (
            as_kind("float32", importer.env[each], emit)
            if isinstance(each, fx.Node)
            else relax.const(max(min(each, _HIGHEST), -_HIGHEST), "float32")
            for each in node.args[:2]
        )
        return as_kind(kind, emit(combine(*operands)), emit)

    return convert


def _holds(dtype: torch.dtype, magnitude: float) -> bool:
    return bool(torch.finfo(dtype).tiny <= magnitude <= torch.finfo(dtype).max)


def power_of_integers(node: fx.Node, importer: Any) -> Any:
    """Powers of integers by float64, which is exact up to 2 to the power of 53: TVM has none."""
    if value_of(node).dtype.is_floating_point:
        return importer._binary_op(relax.op.power, operator.pow)(node)  # noqa: SLF001
    emit = importer.block_builder.emit
    base, exponent = (emit(relax.op.astype(_operand(each, node, importer), "float64")) for each in node.args[:2])
    # Of a negative exponent, truncation leaves the powers of 1 and -1; that of 0 is not defined, and 0 in torch.
    is_root = emit(relax.op.less(exponent, relax.const(0, "float64")))
    is_zero = emit(relax.op.equal(base, relax.const(0, "float64")))
    powers = emit(relax.op.power(base, exponent))
    whole = emit(relax.op.where(is_root, emit(relax.op.trunc(powers)), emit(relax.op.round(powers))))
    none = emit(relax.op.logical_and(is_root, is_zero))
    return emit(relax.op.where(none, relax.const(0, "float64"), whole))


def vector_norm(node: fx.Node, importer: Any) -> Any:
    """Norms of vectors; of halves in float32. TVM's converter divides by the order 0, which counts elements."""
    data, emit = node.args[0], importer.block_builder.emit
    given = importer.env[data]
    if argument(node, 1, "ord", 2) == 0:
        counted = emit(relax.op.not_equal(given, relax.const(0, str(given.ty.dtype))))
        return emit(
            relax.op.sum(
                emit(relax.op.astype(counted, "float32")), argument(node, 2, "dim"), argument(node, 3, "keepdim", False)
            )
        )
    kind = "float32" if value_of(data).dtype in HALVES else str(given.ty.dtype)
    with standing_for(importer, {data: as_kind(kind, given, emit)}):
        return importer._norm(node)  # noqa: SLF001


def logarithm_of_sums(node: fx.Node, importer: Any) -> Any:
    """``logcumsumexp`` by all pairs of elements of the axis, each relative to the largest one up to it."""
    emit, dtype = importer.block_builder.emit, value_of(node).dtype
    kind = "float32" if dtype in HALVES else str(dtype).removeprefix("torch.")
    data = as_kind(kind, importer.env[node.args[0]], emit)
    rank = data.ty.ndim
    axis, length = node.args[1] % rank, int(data.ty.shape[node.args[1]])
    if length > MAX_PAIRED:
        raise ValueError(f"it has {length} elements along its axis, more than {MAX_PAIRED}")
    until = torch.ones(length, length, dtype=torch.bool).tril().reshape([length, length] + [1] * (rank - 1 - axis))
    pairs = emit(relax.op.expand_dims(data, axis))  # (..., 1, length, ...)
    hidden = relax.const(float("-inf"), kind)
    pairs = emit(relax.op.where(relax.const(until.numpy()), pairs, hidden))
    largest = emit(relax.op.maximum(emit(relax.op.max(pairs, axis + 1)), relax.const(_LOWEST, kind)))
    apart = emit(relax.op.subtract(pairs, emit(relax.op.expand_dims(largest, axis + 1))))
    sums = emit(relax.op.sum(emit(relax.op.exp(apart)), axis + 1))
    return emit(relax.op.add(emit(relax.op.log(sums)), largest))


def finiteness(check: Callable[..., Any], *, of_others: bool) -> Convert:
    """A check of floats; ``of_others`` is what it says of integers and truth values, for which TVM has none."""

    def convert(node: fx.Node, importer: Any) -> Any:
        data, emit = importer.env[node.args[0]], importer.block_builder.emit
        if value_of(node.args[0]).dtype.is_floating_point:
            return emit(check(data))
        return emit(relax.op.full_like(data, relax.const(of_others, "bool"), "bool"))

    return convert


def elu(node: fx.Node, importer: Any) -> Any:
    """``scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))``: also selu and celu, in one form."""
    data = importer.env[node.args[0]]
    alpha, scale, input_scale = (
        argument(node, 1 + n, name, 1) for n, name in enumerate(("alpha", "scale", "input_scale"))
    )
    emit = importer.block_builder.emit
    dtype = str(data.ty.dtype)
    below = emit(relax.op.exp(scaled(emit(relax.op.minimum(data, relax.const(0, dtype))), input_scale, emit)))
    below = scaled(emit(relax.op.subtract(below, relax.const(1, dtype))), alpha, emit)
    return scaled(emit(relax.op.add(emit(relax.op.nn.relu(data)), below)), scale, emit)


def rounded_quotient(node: fx.Node, importer: Any) -> Any:
    """TVM's converter takes a divisor that is a number as int32, and truncates only quotients of floats."""
    data, divisor, rounding = importer.env[node.args[0]], node.args[1], argument(node, 2, "rounding_mode")
    emit, kind = importer.block_builder.emit, str(data.ty.dtype)
    divisor = importer.env[divisor] if isinstance(divisor, fx.Node) else relax.const(divisor, kind)
    if rounding == "floor":
        return emit(relax.op.floor_divide(data, divisor))
    quotient = emit(relax.op.divide(data, divisor))
    return emit(relax.op.trunc(quotient)) if value_of(node).dtype.is_floating_point else quotient


def hypotenuse(node: fx.Node, importer: Any) -> Any:
    """The root of the sum of two squares."""
    left, right = (importer.env[each] for each in node.args[:2])
    emit = importer.block_builder.emit
    squares = (emit(relax.op.multiply(each, each)) for each in (left, right))
    return emit(relax.op.sqrt(emit(relax.op.add(*squares))))


def clamp(node: fx.Node, importer: Any) -> Any:
    """Between numbers or tensors, or above or below one: TVM has infinity for a missing bound, also among integers."""
    low, high = argument(node, 1, "min"), argument(node, 2, "max")
    result, emit = _operand(node.args[0], node, importer), importer.block_builder.emit
    if isinstance(low, int | float) and isinstance(high, int | float):
        return emit(relax.op.clip(result, low, high))
    for bound, limit in ((low, relax.op.maximum), (high, relax.op.minimum)):
        if bound is not None:
            result = emit(limit(result, _operand(bound, node, importer)))
    return result


def copied_sign(node: fx.Node, importer: Any) -> Any:
    """The magnitude of one number with the sign of another, which zero has as well."""
    magnitude, emit = _operand(node.args[0], node, importer), importer.block_builder.emit
    magnitude = emit(relax.op.abs(magnitude))
    if not isinstance(node.args[1], fx.Node):
        return emit(relax.op.negative(magnitude)) if math.copysign(1, node.args[1]) < 0 else magnitude
    is_negative = _is_negative(_operand(node.args[1], node, importer), emit)
    return emit(relax.op.where(is_negative, emit(relax.op.negative(magnitude)), magnitude))


def sign_bit(node: fx.Node, importer: Any) -> Any:
    """Whether a number is negative, as minus zero is."""
    return _is_negative(importer.env[node.args[0]], importer.block_builder.emit)


def _is_negative(number: Any, emit: Callable[[Any], Any]) -> Any:
    kind = str(number.ty.dtype)
    is_below = emit(relax.op.less(number, relax.const(0, kind)))
    if "float" not in kind:
        return is_below
    inverse = emit(relax.op.divide(relax.const(1, kind), number))  # minus infinity for minus zero
    return emit(relax.op.logical_or(is_below, emit(relax.op.less(inverse, relax.const(0, kind)))))


def number_of_two(choose: Callable[..., Any]) -> Convert:
    """``fmax`` and ``fmin``: the other operand where one is NaN."""

    def convert(node: fx.Node, importer: Any) -> Any:
        left, right = (_operand(each, node, importer) for each in node.args[:2])
        emit = importer.block_builder.emit
        if not value_of(node).dtype.is_floating_point:
            return emit(choose(left, right))
        chosen = emit(relax.op.where(emit(relax.op.isnan(right)), left, emit(choose(left, right))))
        return emit(relax.op.where(emit(relax.op.isnan(left)), right, chosen))

    return convert


def complementary_error(node: fx.Node, importer: Any) -> Any:
    """``erfc``, as accurate as the error function: tails are not computed relative to themselves."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    return emit(relax.op.subtract(relax.const(1, str(data.ty.dtype)), emit(relax.op.erf(data))))


def special(function: Callable[[Any], Any], name: str) -> Convert:
    """A function of elements by its expansion."""

    def convert(node: fx.Node, importer: Any) -> Any:
        builder = importer.block_builder
        data = as_kind(str(value_of(node).dtype).removeprefix("torch."), importer.env[node.args[0]], builder.emit)
        return builder.emit_te(of_elements(function, name), data, primfunc_name_hint=name)

    return convert


def power_of_two(node: fx.Node, importer: Any) -> Any:
    """``exp2``."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    return emit(relax.op.exp(scaled(data, math.log(2), emit)))


def leaky_mean(node: fx.Node, importer: Any) -> Any:
    """``rrelu`` in evaluation: with the mean of its slopes."""
    slope = (argument(node, 2, "lower", 1 / 8) + argument(node, 3, "upper", 1 / 3)) / 2
    return (importer.block_builder.emit(relax.op.nn.leakyrelu(importer.env[node.args[0]], slope)), None)


def shift(shifted: Callable[..., Any]) -> Convert:
    """Shifts of bits by a number or a tensor."""

    def convert(node: fx.Node, importer: Any) -> Any:
        data, amount = importer.env[node.args[0]], node.args[1]
        by = importer.env[amount] if isinstance(amount, fx.Node) else relax.const(int(amount), str(data.ty.dtype))
        return shifted(data, by, importer.block_builder.emit)

    return convert
