"""Operators on complex numbers."""

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import fx
from tvm import relax

from tunefarm.frontend.expressions.complex_numbers import (
    ComplexParts,
    as_pairs,
    conjugate,
    divided,
    exponential,
    logarithm,
    magnitude,
    multiplied,
    of_pairs,
    on_circle,
    phase,
    square_root,
)
from tunefarm.frontend.expressions.fourier import from_spectrum, spectrum, transformed
from tunefarm.frontend.pytorch.operators.nodes import Convert, argument, as_kind, scaled, standing_for, value_of

_MAX_POWER: Final = 16
"""The largest exponent that becomes multiplications."""
_OF_EACH_PART: Final = frozenset(
    {
        *("view", "_unsafe_view", "reshape", "permute", "transpose", "t", "squeeze", "unsqueeze", "expand", "repeat"),
        *("clone", "alias", "detach", "contiguous", "copy", "lift_fresh_copy", "resolve_conj", "getitem"),
        *("cat", "stack", "split", "split_with_sizes", "unbind", "slice", "select", "slice_scatter", "select_scatter"),
        *("index", "index_select", "gather", "flip", "roll", "constant_pad_nd", "unfold"),
        *("sum", "mean", "neg", "where"),
    }
)
"""Operators that treat both parts alike: those that move elements, and sums."""


def involves_complex(node: fx.Node) -> bool:
    """Whether an operand or the result of a node is complex."""
    return any(is_complex(value_of(each)) for each in (node, *node.all_input_nodes))


def has_converter(node: fx.Node) -> bool:
    """Whether a node that involves complex numbers can be converted."""
    return _base_name(node) in CONVERTERS_OF_COMPLEX or _base_name(node) in _OF_EACH_PART


def converted(node: fx.Node, importer: Any) -> Any:
    """The result of a node that involves complex numbers: a Relax expression, or ``ComplexParts``.

    Operators of the parts alone have the converters that other numbers have.
    """
    name = _base_name(node)
    if name in CONVERTERS_OF_COMPLEX:
        return CONVERTERS_OF_COMPLEX[name](node, importer)
    if name == "constant_pad_nd" and argument(node, 2, "value", 0) != 0:
        raise ValueError("it pads complex numbers by others than zero")
    convert = importer.convert_map[node.target.__name__]
    parts = [_parts(each, importer) for each in node.all_input_nodes]
    results = []
    for chosen in (operator.attrgetter("real"), operator.attrgetter("imaginary")):
        with standing_for(importer, dict(zip(node.all_input_nodes, map(chosen, parts), strict=True))):
            results.append(convert(node))
    return ComplexParts(*results)


def _base_name(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target)).partition(".")[0]


def is_complex(value: Any) -> bool:
    """Whether the value of a node is a complex tensor, or has one."""
    if isinstance(value, list | tuple):
        return any(map(is_complex, value))
    return isinstance(value, torch.Tensor) and value.is_complex()


def _part_kind(node: fx.Node) -> str:
    """The element type of the parts of the complex numbers of a node."""
    values = (value_of(each) for each in (node, *node.all_input_nodes))
    complexes = [each for each in values if isinstance(each, torch.Tensor) and each.is_complex()]
    return str(complexes[0].real.dtype).removeprefix("torch.")


def _parts(operand: Any, importer: Any) -> ComplexParts:
    """Of an operand that both parts use: numbers have an imaginary part of zero, positions and conditions none."""
    value = importer.env[operand]
    if isinstance(value, ComplexParts):
        return value
    is_number = isinstance(value_of(operand), torch.Tensor) and value_of(operand).is_floating_point()
    return ComplexParts(value, importer.block_builder.emit(relax.op.zeros_like(value)) if is_number else value)


def _factor(operand: Any, kind: str, importer: Any) -> ComplexParts:
    """An operand of arithmetic; real ones have no imaginary part."""
    if isinstance(operand, fx.Node):
        value = importer.env[operand]
        if isinstance(value, ComplexParts):
            return value
        return ComplexParts(as_kind(kind, value, importer.block_builder.emit), None)
    if isinstance(operand, complex):
        return ComplexParts(relax.const(operand.real, kind), relax.const(operand.imag, kind))
    return ComplexParts(relax.const(float(operand), kind), None)


def _operands(node: fx.Node, importer: Any) -> tuple[ComplexParts, ComplexParts]:
    kind = _part_kind(node)
    return _factor(node.args[0], kind, importer), _factor(node.args[1], kind, importer)


def _sum_of(*, is_difference: bool, swaps: bool = False) -> Convert:
    def convert(node: fx.Node, importer: Any) -> Any:
        emit, (left, right) = importer.block_builder.emit, _operands(node, importer)
        left, right = (right, left) if swaps else (left, right)
        alpha = -node.kwargs.get("alpha", 1) if is_difference else node.kwargs.get("alpha", 1)
        added = [None if each is None else scaled(each, alpha, emit) for each in (right.real, right.imaginary)]
        real = emit(relax.op.add(left.real, added[0]))
        parts = [each for each in (left.imaginary, added[1]) if each is not None]
        imaginary = emit(relax.op.add(*parts)) if len(parts) > 1 else _stretched(parts[0], real, emit)
        return ComplexParts(real, imaginary)

    return convert


def _stretched(part: Any, like: Any, emit: Callable[[Any], Any]) -> Any:
    return emit(relax.op.broadcast_to(part, like.ty.shape))


def _product_by(multiply: Callable[[Any, Any], Any]) -> Convert:
    """A product of numbers or of matrices."""

    def convert(node: fx.Node, importer: Any) -> Any:
        return multiplied(*_operands(node, importer), importer.block_builder.emit, multiply)

    return convert


def _quotient(node: fx.Node, importer: Any) -> Any:
    return divided(*_operands(node, importer), importer.block_builder.emit)


def _reciprocal(node: fx.Node, importer: Any) -> Any:
    one = ComplexParts(relax.const(1.0, _part_kind(node)), None)
    return divided(one, importer.env[node.args[0]], importer.block_builder.emit)


def _power(node: fx.Node, importer: Any) -> Any:
    exponent, emit = node.args[1], importer.block_builder.emit
    if not isinstance(exponent, int | float) or int(exponent) != exponent or not 1 <= exponent <= _MAX_POWER:
        raise ValueError(f"complex numbers to the power of {exponent}; integers from 1 to {_MAX_POWER} are known")
    base = importer.env[node.args[0]]
    result = base
    for _ in range(int(exponent) - 1):
        result = multiplied(result, base, emit)
    return result


def _of_one(function: Callable[[ComplexParts, Callable[[Any], Any]], Any]) -> Convert:
    return lambda node, importer: function(importer.env[node.args[0]], importer.block_builder.emit)


def _polar(node: fx.Node, importer: Any) -> Any:
    radius, angle = (importer.env[each] for each in node.args[:2])
    return on_circle(radius, angle, importer.block_builder.emit)


def _of_parts(node: fx.Node, importer: Any) -> Any:
    real, imaginary = (importer.env[each] for each in node.args[:2])
    shape, emit = relax.ShapeExpr([int(extent) for extent in value_of(node).shape]), importer.block_builder.emit
    return ComplexParts(*(emit(relax.op.broadcast_to(each, shape)) for each in (real, imaginary)))


def _constant(node: fx.Node, importer: Any) -> Any:
    """Equal numbers of a shape."""
    number, kind = complex(node.args[-1]), _part_kind(node)
    shape, emit = relax.ShapeExpr([int(extent) for extent in value_of(node).shape]), importer.block_builder.emit
    return ComplexParts(
        *(emit(relax.op.full(shape, relax.const(each, kind), kind)) for each in (number.real, number.imag))
    )


def _in_other_type(node: fx.Node, importer: Any) -> Any:
    result, emit = value_of(node), importer.block_builder.emit
    parts = _parts(node.args[0], importer)
    kind = str((result.real if result.is_complex() else result).dtype).removeprefix("torch.")
    real = as_kind(kind, parts.real, emit)
    return ComplexParts(real, as_kind(kind, parts.imaginary, emit)) if result.is_complex() else real


def _scale(normalization: int, elements: int) -> float:
    """Of a transform of ``elements``: none, by the root of their number, or by their number."""
    return (1.0, elements**-0.5, 1.0 / elements)[normalization]


def _elements(shape: Any, axes: Any) -> int:
    return int(torch.Size([shape[axis] for axis in axes]).numel())


def _spectrum(node: fx.Node, importer: Any) -> Any:
    """The transform of real numbers over some axes; of the last one perhaps the first half of the frequencies alone."""
    data, axes, emit = importer.env[node.args[0]], node.args[1], importer.block_builder.emit
    is_half = argument(node, 3, "onesided")
    scale = _scale(node.args[2], _elements(value_of(node.args[0]).shape, axes))
    value = spectrum(data, axes[-1], scale, emit, is_half=is_half)
    for axis in axes[:-1]:
        value = transformed(value, axis, 1.0, emit, is_forward=True)
    return value


def _transform(node: fx.Node, importer: Any) -> Any:
    value, axes, emit = importer.env[node.args[0]], node.args[1], importer.block_builder.emit
    scale = _scale(node.args[2], _elements(value_of(node).shape, axes))
    for axis in axes:
        value, scale = transformed(value, axis, scale, emit, is_forward=argument(node, 3, "forward")), 1.0
    return value


def _from_spectrum(node: fx.Node, importer: Any) -> Any:
    """The real numbers of which the input has the first half of the frequencies."""
    value, axes, emit = importer.env[node.args[0]], node.args[1], importer.block_builder.emit
    scale = _scale(node.args[2], _elements(value_of(node).shape, axes))
    for axis in axes[:-1]:
        value = transformed(value, axis, 1.0, emit, is_forward=False)
    return from_spectrum(value, axes[-1], node.args[3], scale, emit)


CONVERTERS_OF_COMPLEX: Final[Mapping[str, Convert]] = MappingProxyType(
    {
        "add": _sum_of(is_difference=False),
        "sub": _sum_of(is_difference=True),
        "rsub": _sum_of(is_difference=True, swaps=True),
        "mul": _product_by(relax.op.multiply),
        **dict.fromkeys(("mm", "bmm", "matmul"), _product_by(relax.op.matmul)),
        "div": _quotient,
        "reciprocal": _reciprocal,
        "pow": _power,
        "abs": _of_one(magnitude),
        "angle": _of_one(phase),
        "exp": _of_one(exponential),
        "log": _of_one(logarithm),
        "sqrt": _of_one(square_root),
        "polar": _polar,
        "complex": _of_parts,
        **dict.fromkeys(("_conj", "conj", "_conj_physical", "conj_physical"), _of_one(conjugate)),
        "view_as_complex": _of_one(of_pairs),
        "view_as_real": _of_one(as_pairs),
        **dict.fromkeys(("full", "scalar_tensor"), _constant),
        "_to_copy": _in_other_type,
        "real": lambda node, importer: importer.env[node.args[0]].real,
        "imag": lambda node, importer: importer.env[node.args[0]].imaginary,
        "_fft_r2c": _spectrum,
        "_fft_c2c": _transform,
        "_fft_c2r": _from_spectrum,
    }
)
"""Converters of operators that treat the parts differently, by their names without the overload."""
