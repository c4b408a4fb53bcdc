"""Operators on complex numbers, which are two tensors while a program is translated."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jaxlib.mlir.dialects import stablehlo
from tvm import relax

from tunefarm.frontend.expressions import complex_numbers as arithmetic
from tunefarm.frontend.expressions.complex_numbers import ComplexParts
from tunefarm.frontend.expressions.fourier import from_spectrum, spectrum, transformed
from tunefarm.frontend.stablehlo.attributes import Unconvertible, contents, dtype_of, integers, is_complex, shape_of
from tunefarm.frontend.stablehlo.operand import ComplexOperand, Emitter, Operand, Value, constant, tensors
from tunefarm.frontend.stablehlo.operators.elementwise import Converter
from tunefarm.frontend.stablehlo.operators.reductions import reducer_of
from tunefarm.frontend.stablehlo.scalars import comparison_of

_ADVICE: Final = "Write it with the real and the imaginary parts of its operands."
_OF_EACH_PART: Final = frozenset(
    {
        *("stablehlo.add", "stablehlo.subtract", "stablehlo.negate", "stablehlo.select"),
        *("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose", "stablehlo.reverse"),
        *("stablehlo.concatenate", "stablehlo.slice", "stablehlo.pad", "stablehlo.optimization_barrier"),
        *("stablehlo.gather", "stablehlo.scatter", "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"),
        *("stablehlo.reduce", "stablehlo.reduce_window"),
    }
)
"""Operators that treat both parts alike: those that move elements, and sums."""
_OF_REGIONS: Final = frozenset({"stablehlo.add", "stablehlo.return"})
_MAX_FACTORS: Final = 64
"""Of a reduction by a product, which is unrolled."""
ComplexConverter = Callable[[Any, Sequence[Value], Emitter], Value]


def involves_complex(op: Any) -> bool:
    """Whether an operand or a result is complex."""
    return any(map(is_complex, (*op.operands, *op.results)))


def converted(
    op: Any, operands: Sequence[Value], emitter: Emitter, of_parts: Mapping[str, Converter]
) -> Sequence[Value]:
    """The results of an operator that involves complex numbers.

    Args:
        op: the operator.
        operands: complex and real ones.
        emitter: where its calls are emitted.
        of_parts: the converters of operators on real numbers.

    Raises:
        Unconvertible: it is not known for complex numbers.
    """
    name = str(op.operation.name)
    if name == "stablehlo.reduce" and reducer_of(op) == "stablehlo.multiply":
        return [_reduced_product(op, operands, emitter)]
    if name in _PRODUCTS:
        return [_product(op, operands, emitter, of_parts[name])]
    if name in _CONVERTERS:
        return [_CONVERTERS[name](op, operands, emitter)]
    if name not in _OF_EACH_PART or not _only_adds(op):
        raise Unconvertible(_ADVICE)
    results = [
        of_parts[name](op, [_part(each, of_number) for each in operands], emitter)
        for of_number in (operator.attrgetter("real"), operator.attrgetter("imaginary"))
    ]
    return [ComplexOperand(real, imaginary) for real, imaginary in zip(*results, strict=True)]


def constants(op: Any, _operands: Sequence[Value], _emitter: Emitter) -> Sequence[Value]:
    """The value of a constant of complex numbers."""
    numbers, dtype = contents(op), dtype_of(op.results[0])
    return [ComplexOperand(constant(numbers.real, dtype), constant(numbers.imag, dtype))]


def _only_adds(op: Any) -> bool:
    """Whether the region by which elements are combined, if any, returns a sum or one of its arguments."""
    operators = [each for region in op.regions for block in region.blocks for each in block.operations]
    return all(str(each.operation.name) in _OF_REGIONS for each in operators)


def _part(operand: Value, of_number: Callable[[Any], Operand]) -> Operand:
    """Of an operand that both parts use: positions and conditions are the same for both."""
    return of_number(operand) if isinstance(operand, ComplexOperand) else operand


def _compact(operand: Value) -> ComplexParts:
    if isinstance(operand, ComplexOperand):
        return ComplexParts(operand.real.compact, operand.imaginary.compact)
    return ComplexParts(operand.compact, None)


def _result(op: Any, parts: ComplexParts) -> ComplexOperand:
    shape, dtype = shape_of(op.results[0]), dtype_of(op.results[0])
    return ComplexOperand(Operand(parts.real, shape, dtype), Operand(parts.imaginary, shape, dtype))


def _of_numbers(function: Callable[..., ComplexParts]) -> ComplexConverter:
    return lambda op, operands, emitter: _result(op, function(*map(_compact, operands), emitter.emit))


def _of_one(function: Callable[..., Any]) -> ComplexConverter:
    """A real function of a number."""

    def convert(op: Any, operands: Sequence[Value], emitter: Emitter) -> Value:
        value = function(_compact(operands[0]), emitter.emit)
        return Operand(value, shape_of(op.results[0]), dtype_of(op.results[0]))

    return convert


def _product(op: Any, operands: Sequence[Value], emitter: Emitter, convert: Converter) -> Value:
    """A product by the converter of real numbers, such as one of matrices."""

    def multiply(left: Operand, right: Operand) -> Any:
        return convert(op, [left, right], emitter)[0].compact

    left, right = (ComplexParts(*tensors([each])) for each in operands)
    return _result(op, arithmetic.multiplied(left, right, emitter.emit, multiply))


def _reduced_product(op: Any, operands: Sequence[Value], emitter: Emitter) -> Value:
    """One element after another."""
    given, initial = operands
    assert isinstance(given, ComplexOperand)
    shape, axes = given.real.shape, list(integers(op, "dimensions"))
    count = math.prod(shape[axis] for axis in axes)
    if count > _MAX_FACTORS:
        raise Unconvertible(f"Products of at most {_MAX_FACTORS} complex numbers are known.")
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    factors = [
        emitter.reshaped(
            emitter.emit(relax.op.permute_dims(emitter.full(each), [*axes, *kept])), [count, *shape_of(op.results[0])]
        )
        for each in (given.real, given.imaginary)
    ]
    result = _compact(initial)
    for place in range(count):
        at = relax.const(place, "int64")
        factor = ComplexParts(*(emitter.emit(relax.op.take(each, at, axis=0)) for each in factors))
        result = arithmetic.multiplied(result, factor, emitter.emit)
    return _result(op, result)


def _of_parts(_op: Any, operands: Sequence[Value], _emitter: Emitter) -> Value:
    real, imaginary = operands
    assert isinstance(real, Operand)
    assert isinstance(imaginary, Operand)
    return ComplexOperand(real, imaginary)


def _convert(op: Any, operands: Sequence[Value], emitter: Emitter) -> Value:
    """Between types of complex numbers, and from real ones."""
    shape, dtype = shape_of(op.results[0]), dtype_of(op.results[0])
    given = operands[0]
    if isinstance(given, ComplexOperand):
        real, imaginary = given.real.compact, given.imaginary.compact
    else:
        real, imaginary = given.compact, relax.const(0, given.dtype)
    parts = (emitter.emit(relax.op.astype(each, dtype)) for each in (real, imaginary))
    return ComplexOperand(*(Operand(each, shape, dtype) for each in parts))


def _compare(op: Any, operands: Sequence[Value], emitter: Emitter) -> Value:
    """Equal numbers have equal parts; there is no order."""
    direction = comparison_of(op)
    if direction not in {"EQ", "NE"}:
        raise Unconvertible(_ADVICE)
    of_parts, of_both = (
        (relax.op.equal, relax.op.logical_and) if direction == "EQ" else (relax.op.not_equal, relax.op.logical_or)
    )
    left, right = map(_compact, operands)
    pairs = ((left.real, right.real), (left.imaginary, right.imaginary))
    value = emitter.emit(of_both(*(emitter.emit(of_parts(*pair)) for pair in pairs)))
    return Operand(value, shape_of(op.results[0]), "bool")


def _fft(op: Any, operands: Sequence[Value], emitter: Emitter) -> Value:
    """Over the last dimensions; the inverse divides by the number of elements."""
    kind = str(stablehlo.FftTypeAttr(op.attributes["fft_type"]).value)
    lengths, given, emit = integers(op, "fft_length"), operands[0], emitter.emit
    axes = range(-len(lengths), 0)
    if isinstance(given, Operand):
        value = spectrum(emitter.full(given), -1, 1.0, emit, is_half=True)
    else:
        value = ComplexParts(emitter.full(given.real), emitter.full(given.imaginary))
    is_forward, is_half = kind in {"FFT", "RFFT"}, kind in {"RFFT", "IRFFT"}
    scale = 1.0 if is_forward else 1.0 / math.prod(lengths)
    for axis in axes[:-1] if is_half else axes:
        value, scale = transformed(value, axis, scale, emit, is_forward=is_forward), 1.0
    if kind != "IRFFT":
        return _result(op, value)
    return Operand(from_spectrum(value, -1, lengths[-1], scale, emit), shape_of(op.results[0]), dtype_of(op.results[0]))


def _of_part(name: str) -> ComplexConverter:
    def convert(_op: Any, operands: Sequence[Value], _emitter: Emitter) -> Value:
        value: Operand = getattr(operands[0], name)
        return value

    return convert


_PRODUCTS: Final = frozenset({"stablehlo.convolution", "stablehlo.dot_general", "stablehlo.multiply"})
_CONVERTERS: Final[dict[str, ComplexConverter]] = {
    "chlo.conj": _of_numbers(arithmetic.conjugate),
    "stablehlo.abs": _of_one(arithmetic.magnitude),
    "stablehlo.compare": _compare,
    "stablehlo.complex": _of_parts,
    "stablehlo.convert": _convert,
    "stablehlo.divide": _of_numbers(arithmetic.divided),
    "stablehlo.exponential": _of_numbers(arithmetic.exponential),
    "stablehlo.fft": _fft,
    "stablehlo.imag": _of_part("imaginary"),
    "stablehlo.log": _of_numbers(arithmetic.logarithm),
    "stablehlo.power": _of_numbers(arithmetic.power),
    "stablehlo.real": _of_part("real"),
    "stablehlo.sqrt": _of_numbers(arithmetic.square_root),
}
"""Converters of operators that treat the parts differently."""
