"""Elementwise operators, comparisons, conversions and selections."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import tvm
from tvm import relax, tirx

from tunefarm.frontend.expressions.bits import leading_zeros, reinterpreted
from tunefarm.frontend.expressions.shifts import shifted_left, shifted_right
from tunefarm.frontend.expressions.special_functions import digamma, inverse_error, log_gamma, of_elements
from tunefarm.frontend.stablehlo.attributes import Unconvertible, dtype_of, integer, shape_of
from tunefarm.frontend.stablehlo.operand import Emitter, Operand
from tunefarm.frontend.stablehlo.scalars import comparison_of
from tunefarm_search.tvm.bfloat16 import SHIFT, rounded_bits

R: Final = relax.op
Converter = Callable[[Any, Sequence[Operand], Emitter], list[Operand]]
Function = Callable[..., Any]


def _number(like: Any, value: float) -> Any:
    return relax.const(value, like.ty.dtype)


def _log_plus_one(x: Any) -> Any:
    """``log(1 + x)`` loses the digits of a small x, for which this takes the first terms of the series."""
    third, half, fourth = (_number(x, value) for value in (1 / 3, 1 / 2, 1 / 4))
    one, small = _number(x, 1.0), _number(x, 0.01)
    inner = R.subtract(third, R.multiply(x, fourth))
    series = R.multiply(x, R.subtract(one, R.multiply(x, R.subtract(half, R.multiply(x, inner)))))
    return R.where(R.less(R.abs(x), small), series, R.log(R.add(one, x)))


def _exponential_minus_one(x: Any) -> Any:
    """``(exp(x) + 1) * tanh(x / 2)``, which keeps the digits of a small x."""
    return R.multiply(R.add(R.exp(x), _number(x, 1.0)), R.tanh(R.multiply(x, _number(x, 0.5))))


def _cube_root(x: Any) -> Any:
    return R.multiply(R.sign(x), R.power(R.abs(x), _number(x, 1 / 3)))


def _round_away_from_zero(x: Any) -> Any:
    return R.multiply(R.sign(x), R.floor(R.add(R.abs(x), _number(x, 0.5))))


def _complementary_error(x: Any) -> Any:
    return R.subtract(_number(x, 1.0), R.erf(x))


UNARY: Final[dict[str, Function]] = {
    "stablehlo.abs": R.abs,
    "stablehlo.cbrt": _cube_root,
    "stablehlo.ceil": R.ceil,
    "stablehlo.cosine": R.cos,
    "stablehlo.exponential": R.exp,
    "stablehlo.exponential_minus_one": _exponential_minus_one,
    "stablehlo.floor": R.floor,
    "stablehlo.is_finite": R.isfinite,
    "stablehlo.log": R.log,
    "stablehlo.log_plus_one": _log_plus_one,
    "stablehlo.logistic": R.sigmoid,
    "stablehlo.round_nearest_afz": _round_away_from_zero,
    "stablehlo.round_nearest_even": R.round,
    "stablehlo.rsqrt": R.rsqrt,
    "stablehlo.sign": R.sign,
    "stablehlo.sine": R.sin,
    "stablehlo.sqrt": R.sqrt,
    "stablehlo.tan": R.tan,
    "stablehlo.tanh": R.tanh,
    "chlo.acos": R.acos,
    "chlo.acosh": R.acosh,
    "chlo.asin": R.asin,
    "chlo.asinh": R.asinh,
    "chlo.atan": R.atan,
    "chlo.atanh": R.atanh,
    "chlo.cosh": R.cosh,
    "chlo.erf": R.erf,
    "chlo.erfc": _complementary_error,
    "chlo.is_inf": R.isinf,
    "chlo.sinh": R.sinh,
    "chlo.square": lambda x: R.multiply(x, x),
    "chlo.tan": R.tan,
}
BINARY: Final[dict[str, Function]] = {
    "stablehlo.add": R.add,
    "stablehlo.atan2": R.atan2,
    "stablehlo.divide": R.divide,
    "stablehlo.maximum": R.maximum,
    "stablehlo.minimum": R.minimum,
    "stablehlo.multiply": R.multiply,
    "stablehlo.power": R.power,
    "stablehlo.remainder": R.mod,
    "stablehlo.subtract": R.subtract,
}
SPECIAL: Final[dict[str, Function]] = {
    "chlo.digamma": digamma, "chlo.erf_inv": inverse_error, "chlo.lgamma": log_gamma,
    "stablehlo.count_leading_zeros": leading_zeros, "stablehlo.popcnt": tirx.popcount,
}  # fmt: skip
_SIZES: Final = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23)}
"""The numbers of bits in their exponents and mantissas."""
DIVISIONS: Final = frozenset({"stablehlo.divide", "stablehlo.remainder"})
BITWISE: Final[dict[str, Function]] = {
    "stablehlo.and": R.bitwise_and,
    "stablehlo.or": R.bitwise_or,
    "stablehlo.xor": R.bitwise_xor,
}
LOGICAL: Final[dict[str, Function]] = {
    "stablehlo.add": R.logical_or,
    "stablehlo.and": R.logical_and,
    "stablehlo.maximum": R.logical_or,
    "stablehlo.minimum": R.logical_and,
    "stablehlo.multiply": R.logical_and,
    "stablehlo.or": R.logical_or,
    "stablehlo.xor": R.logical_xor,
}
"""On booleans, StableHLO's sum is a disjunction and its product a conjunction."""
COMPARISON: Final[dict[str, Function]] = {
    "EQ": R.equal, "NE": R.not_equal, "LT": R.less, "LE": R.less_equal, "GT": R.greater, "GE": R.greater_equal,
}  # fmt: skip


def apply(function: Function, op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """Call an elementwise function on the compact forms: what is broadcast stays so."""
    result = op.results[0]
    value = emitter.emit(function(*(each.compact for each in operands)))
    return [Operand(value, shape_of(result), dtype_of(result))]


def _unary(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    return apply(UNARY[op.operation.name], op, operands, emitter)


def _binary(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    name, dtype = op.operation.name, operands[0].dtype
    if dtype == "bool":
        if name not in LOGICAL:
            raise Unconvertible(f"Cast booleans to integers before {name}.")
        return apply(LOGICAL[name], op, operands, emitter)
    if name == "stablehlo.maximum":
        for each, other in (operands, operands[::-1]):
            if each.scalar is not None and each.scalar == -np.inf:  # JAX guards its softmax so
                return [other]
    if name in DIVISIONS and "int" in dtype and not operands[1].scalar:
        return apply(_integer_division(name, dtype), op, operands, emitter)
    if name == "stablehlo.power" and "int" in dtype:
        return apply(_integer_power(dtype, operands[1]), op, operands[:1], emitter)
    return apply((BINARY | BITWISE)[name], op, operands, emitter)


def _integer_division(name: str, dtype: str) -> Function:
    """As XLA divides: by 0 the quotient has all bits set, and the dividend remains; processors end the process there.

    So do some at the quotient of the smallest number and -1.
    """
    is_quotient, is_signed = name == "stablehlo.divide", not dtype.startswith("u")

    def divide(x: Any, by: Any) -> Any:
        is_zero = unsafe = R.equal(by, _number(by, 0))
        if is_signed:
            is_minus_one = R.equal(by, _number(by, -1))
            unsafe = R.logical_or(is_zero, is_minus_one)
        result = BINARY[name](x, R.where(unsafe, _number(by, 1), by))
        if is_signed:
            result = R.where(is_minus_one, R.negative(x) if is_quotient else _number(x, 0), result)
        return R.where(is_zero, _number(x, np.iinfo(dtype).max if not is_signed else -1) if is_quotient else x, result)

    return divide


def _integer_power(dtype: str, exponent: Operand) -> Function:
    """TVM has powers of floating-point numbers only; a known exponent is a chain of products."""
    if exponent.scalar is None or not 1 <= int(exponent.scalar) <= 64:
        raise Unconvertible(f"Cast the base of powers of {dtype} to floating point, or use a constant exponent.")

    def power(x: Any) -> Any:
        result = x
        for _ in range(int(exponent.scalar) - 1):  # type: ignore[arg-type]
            result = R.multiply(result, x)
        return result

    return power


def _negate(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """TVM negates no unsigned integers, and takes what is subtracted from zero for zero."""

    def of_unsigned(x: Any) -> Any:
        return R.add(emitter.emit(R.bitwise_not(x)), _number(x, 1))

    return apply(of_unsigned if operands[0].dtype.startswith("uint") else R.negative, op, operands, emitter)


def _not(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    return apply(R.logical_not if operands[0].dtype == "bool" else R.bitwise_not, op, operands, emitter)


def _shift_left(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    return apply(lambda x, bits: shifted_left(x, bits, emitter.emit), op, operands, emitter)


def _shift_right(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """TVM shifts arithmetically where the type is signed."""
    dtype, emit = operands[0].dtype, emitter.emit
    if (op.operation.name == "stablehlo.shift_right_logical") == dtype.startswith("uint"):
        return apply(lambda x, bits: shifted_right(x, bits, emit), op, operands, emitter)
    other = dtype.removeprefix("u") if dtype.startswith("u") else f"u{dtype}"

    def in_other_type(x: Any) -> Any:
        return (
            relax.const(x.value.numpy().astype(other))
            if isinstance(x, tvm.ir.GenericConst)
            else emit(R.astype(x, other))
        )

    def shifted(x: Any, bits: Any) -> Any:
        return R.astype(shifted_right(in_other_type(x), in_other_type(bits), emit), dtype)

    return apply(shifted, op, operands, emitter)


def _compare(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    direction = comparison_of(op)
    function = COMPARISON[direction]
    if op.operands[0] == op.operands[1] and "float" in operands[0].dtype and direction in {"EQ", "NE"}:
        # The usual test for NaN. TVM's simplifier takes every number for equal to itself.
        is_nan = R.isnan if direction == "NE" else lambda x: R.logical_not(R.isnan(x))
        return apply(is_nan, op, operands[:1], emitter)
    if operands[0].dtype == "bool":
        return apply(lambda a, b: function(R.astype(a, "int8"), R.astype(b, "int8")), op, operands, emitter)
    return apply(function, op, operands, emitter)


def _special(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    name = str(op.operation.name)
    short = name.partition(".")[2]
    return apply(lambda x: emitter.computed(short, of_elements(SPECIAL[name], short), x), op, operands, emitter)


def _reduce_precision(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    sizes, dtype = (integer(op, "exponent_bits"), integer(op, "mantissa_bits")), operands[0].dtype
    if dtype in _SIZES and all(wanted >= own for wanted, own in zip(sizes, _SIZES[dtype], strict=True)):
        return list(operands)
    if dtype not in _SIZES or sizes not in {_SIZES["float16"], _SIZES["bfloat16"]}:
        raise Unconvertible("Reduce the precision of float16, bfloat16 or float32 to that of float16 or bfloat16.")
    if sizes == _SIZES["float16"]:
        return apply(lambda x: R.astype(emitter.emit(R.astype(x, "float16")), dtype), op, operands, emitter)
    compute = of_elements(_as_bfloat16, "reduce_precision")
    return apply(lambda x: emitter.computed("reduce_precision", compute, x), op, operands, emitter)


def _as_bfloat16(x: Any) -> Any:
    """Rounded to the nearest, to even ones between two. Compilers may drop a conversion there and back."""
    rounded = tirx.reinterpret("float32", rounded_bits(x) << tirx.const(SHIFT, "uint32"))
    return tirx.if_then_else(tirx.isnan(x), x, rounded)


def _convert(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    dtype = dtype_of(op.results[0])
    if dtype == operands[0].dtype:
        return list(operands)
    if dtype == "bool":
        return apply(lambda x: R.not_equal(x, _number(x, 0)), op, operands, emitter)
    return apply(lambda x: R.astype(x, dtype), op, operands, emitter)


def _select(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    chosen = operands[0].scalar
    if chosen is not None:
        return [operands[1] if chosen else operands[2]]
    return apply(R.where, op, operands, emitter)


def _clamp(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    return apply(lambda low, x, high: R.minimum(R.maximum(x, low), high), op, operands, emitter)


def _bitcast(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    shape, dtype = shape_of(op.results[0]), dtype_of(op.results[0])
    if dtype == operands[0].dtype:
        return list(operands)
    if "bool" in {dtype, operands[0].dtype}:
        raise Unconvertible("Reinterpret the bits of numbers, not of booleans.")
    value = emitter.computed("reinterpret", lambda x: reinterpreted(x, dtype), emitter.full(operands[0]))
    return [Operand(value, shape, dtype)]


def _unchanged(_op: Any, operands: Sequence[Operand], _emitter: Emitter) -> list[Operand]:
    return list(operands)


CONVERTERS: Final[dict[str, Converter]] = {
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(BINARY | BITWISE, _binary),
    **dict.fromkeys(SPECIAL, _special),
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.convert": _convert,
    "stablehlo.negate": _negate,
    "stablehlo.not": _not,
    "stablehlo.optimization_barrier": _unchanged,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.select": _select,
    "stablehlo.shift_left": _shift_left,
    "stablehlo.shift_right_arithmetic": _shift_right,
    "stablehlo.shift_right_logical": _shift_right,
}
