"""Evaluates scalars that are known while a program is converted: indexes of loops, reducers and comparators."""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from tunefarm.frontend.stablehlo.attributes import contents, dtype_of, numpy_dtype

Scalar = npt.NDArray[np.generic]


def _divided(value: Scalar, by: Scalar) -> Any:
    """Integers are cut off towards zero; double precision holds those of up to 53 bits."""
    return np.trunc(np.true_divide(value, by)) if value.dtype.kind in "iu" else np.divide(value, by)


def _shifted_right(kind: str, value: Scalar, bits: Scalar) -> Any:
    """As signed (``i``) or unsigned (``u``) integers."""
    dtype = f"{kind}{value.dtype.itemsize}"
    return np.right_shift(value.astype(dtype), bits.astype(dtype))


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "stablehlo.abs": np.abs,
    "stablehlo.add": np.add,
    "stablehlo.and": np.bitwise_and,
    "stablehlo.broadcast_in_dim": lambda value: value,
    "stablehlo.clamp": lambda low, value, high: np.minimum(np.maximum(value, low), high),
    "stablehlo.convert": lambda value: value,
    "stablehlo.divide": _divided,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.multiply": np.multiply,
    "stablehlo.negate": np.negative,
    "stablehlo.not": np.invert,
    "stablehlo.or": np.bitwise_or,
    "stablehlo.remainder": np.fmod,
    "stablehlo.reshape": lambda value: value,
    "stablehlo.shift_left": np.left_shift,
    "stablehlo.shift_right_arithmetic": functools.partial(_shifted_right, "i"),
    "stablehlo.shift_right_logical": functools.partial(_shifted_right, "u"),
    "stablehlo.select": lambda condition, on_true, on_false: on_true if condition else on_false,
    "stablehlo.sign": np.sign,
    "stablehlo.sqrt": np.sqrt,
    "stablehlo.subtract": np.subtract,
    "stablehlo.xor": np.bitwise_xor,
}
COMPARISONS: Final[dict[str, Callable[..., Any]]] = {
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
}  # fmt: skip


def comparison_of(op: Any) -> str:
    """The direction of a ``stablehlo.compare``: one of ``EQ NE LT LE GT GE``."""
    return str(stablehlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value)


def fold(op: Any, operands: Sequence[Scalar]) -> Scalar | None:
    """The result of an operator on these numbers, of rank 0; None if it is not among those that are folded.

    Integers wrap round and a division by zero is not folded, as the compiled program would have it.
    """
    name = op.operation.name
    if name in {"stablehlo.divide", "stablehlo.remainder"} and not operands[1]:
        return None
    with np.errstate(all="ignore"):
        if name == "stablehlo.compare":
            result = COMPARISONS[comparison_of(op)](*operands)
        elif name in _FUNCTIONS:
            result = _FUNCTIONS[name](*operands)
        else:
            return None
        return np.asarray(result).astype(numpy_dtype(dtype_of(op.results[0]))).reshape(())


def evaluate(value: Any, known: Mapping[Any, Scalar]) -> Scalar | None:
    """The number that a value is, by the operators that lead to it from known values; None if it is not known."""
    if value in known:
        return known[value]
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.opview
    if op.operation.name == "stablehlo.constant":
        array = contents(op)
        return array.reshape(()) if array.size == 1 else None
    operands = []
    for each in op.operands:
        number = evaluate(each, known)
        if number is None:
            return None
        operands.append(number)
    return fold(op, operands)


def evaluate_region(region: Any, *arguments: Any) -> tuple[Any, ...] | None:
    """What a region of scalars returns for these arguments; None if that is not known."""
    block = region.blocks[0]
    known = {
        each: np.asarray(number).astype(numpy_dtype(dtype_of(each)))
        for each, number in zip(block.arguments, arguments, strict=True)
    }
    results = [evaluate(each, known) for each in list(block.operations)[-1].operands]
    return tuple(None if each is None else each[()] for each in results) if None not in results else None
