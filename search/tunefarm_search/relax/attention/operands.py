"""Matrices of products as they are before they are transposed, or repeated for heads that share them."""

import math
from dataclasses import dataclass, replace
from typing import Any, Final

from tvm import relax

from tunefarm_search.relax.expressions import extents_of, integers, operator_of, scalar_of, uses_of

MATRIX: Final = 2
"""The axes of rows and columns, which are the last."""


@dataclass(frozen=True)
class ProductOperand:
    """The matrices of a product.

    Attributes:
        matrices: an expression of shape (..., rows, columns).
        copies: how often each of them follows itself.
        is_turned: whether the product has their columns for rows.
        factor: what their elements are multiplied by.
    """

    matrices: Any
    copies: int = 1
    is_turned: bool = False
    factor: float = 1.0


class OperandFinder:
    """Finds operands in one function."""

    def __init__(self, function: Any) -> None:
        self.values = dict(relax.analysis.get_var2val(function).items())
        """What variables stand for."""
        self._uses = uses_of(function)

    def source(self, expression: Any) -> ProductOperand:
        """An operand without the steps that made it, of which nothing else reads a result."""
        operand = ProductOperand(expression)
        while True:
            expression = operand.matrices
            value = self.values.get(expression) if isinstance(expression, relax.Var) else None
            if value is None or self._uses.get(expression, 0) > 1:
                return operand
            before = _without_step(operand, value)
            if before is None:
                return operand
            operand = before


def _without_step(operand: ProductOperand, value: Any) -> ProductOperand | None:
    """The operand that ``value``, a call, made of another one; None if the call is none of these steps."""
    operator, after = operator_of(value), extents_of(value)
    if operator == "relax.multiply":
        return _without_factor(operand, value)
    before = extents_of(value.args[0]) if getattr(value, "args", None) else None
    if before is None or after is None or min(len(before), len(after)) < MATRIX:
        return None
    if operator == "relax.permute_dims":
        axes = list(range(len(after)))[::-1] if value.attrs.axes is None else integers(value.attrs.axes)
        is_turn = axes == [*range(len(after) - 2), len(after) - 1, len(after) - 2]
        return replace(operand, matrices=value.args[0], is_turned=not operand.is_turned) if is_turn else None
    if before[-MATRIX:] != after[-MATRIX:]:
        return None
    if operator in {"relax.reshape", "relax.expand_dims"}:
        return replace(operand, matrices=value.args[0])
    if operator == "relax.broadcast_to":
        copies = _copies(before[:-MATRIX], after[:-MATRIX])
        return None if copies is None else replace(operand, matrices=value.args[0], copies=operand.copies * copies)
    return None


def _without_factor(operand: ProductOperand, value: Any) -> ProductOperand | None:
    for number, matrices in (value.args, tuple(value.args)[::-1]):
        factor = scalar_of(number)
        if factor is not None and extents_of(matrices) == extents_of(value):
            return replace(operand, matrices=matrices, factor=operand.factor * factor)
    return None


def _copies(before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    """How often each matrix is repeated in its place; None if repetitions are apart."""
    aligned = (1,) * (len(after) - len(before)) + before
    changed = [axis for axis, (one, other) in enumerate(zip(aligned, after, strict=True)) if one != other]
    if not changed:
        return 1
    # What follows the first axis that is repeated is repeated as well, so that copies of a matrix are neighbors.
    inner = range(changed[0], len(after))
    return math.prod(after[axis] for axis in inner) if all(aligned[axis] == 1 for axis in inner) else None


def reshaped(builder: Any, value: Any, shape: tuple[int, ...]) -> Any:
    """``value`` in another shape, of which one extent may be -1, bound if that changes it."""
    extents = tuple(integers(value.ty.shape))
    rest = math.prod(extents) // math.prod(each for each in shape if each > 0)
    whole = tuple(rest if each < 0 else each for each in shape)
    return value if whole == extents else builder.emit(relax.op.reshape(value, whole))


def in_matrices(builder: Any, value: Any) -> Any:
    """``value`` with one axis for all its matrices."""
    return reshaped(builder, value, (-1, *integers(value.ty.shape)[-MATRIX:]))
