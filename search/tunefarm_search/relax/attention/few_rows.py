"""Products of a few rows and a matrix that a run computes, such as the scores of one token and its sums of values.

As written, the matrix is transposed first, and repeated for heads that share it. Both take several times as long as the
product.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from tvm import relax, te
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.constants import is_constant
from tunefarm_search.relax.expressions import (
    MATMUL,
    OPAQUE,
    extents_of,
    integers,
    operator_of,
    rewritten,
    scalar_of,
    uses_of,
)
from tunefarm_search.validation.permitted_nodes import LANE_SUMS

_LANES: Final = 16
"""Sums that are kept apart: a cache line, and the widest vector."""
_MAX_ROWS: Final = 4
"""More rows of a head are worth a transposition, and are attention that is one function."""
_MAX_SHARED: Final = 16
"""Rows of all heads that share a matrix, at most: their sums are kept in registers."""
_MIN_ELEMENTS: Final = 1 << 13
"""Of the matrices. Fewer are transposed within a microsecond or two."""
_MIN_STEP: Final = 4
"""So many rows of a matrix, or more, are summed without a loop."""
_MATRIX: Final = 2
"""The axes of rows and columns, which are the last."""


@dataclass(frozen=True)
class _Operand:
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


def with_products_of_few_rows(module: Any) -> Any:
    """Multiply a few rows with matrices as they are, neither transposed nor repeated."""
    rewriting = _FewRows(module)
    return rewritten(module, rewriting, rewriting.changed)


@mutator
class _FewRows(PyExprMutator):  # type: ignore[misc]
    _values: dict[Any, Any]
    """Of the variables of the function that is visited."""
    _uses: dict[Any, int]

    def changed(self, function: Any) -> Any:
        """The function with such products changed."""
        self._values = dict(relax.analysis.get_var2val(function).items())
        self._uses = uses_of(function)
        return self.visit_expr(function)

    def visit_call_(self, call: Any) -> Any:
        """Replace a product whose matrices nothing else transposes or repeats."""
        operand = self._operand_of(call)
        if operand is None:
            return self.visit_expr_post_order(call)
        matrices = self._matrices(operand.matrices)
        shape = (int(matrices.ty.shape[0]), -1, integers(call.args[0].ty.shape)[-1])
        rows = self._reshaped(self.visit_expr(call.args[0]), shape)
        if operand.factor != 1:
            rows = self.builder_.emit(relax.op.multiply(rows, relax.const(np.float32(operand.factor))))
        if operand.is_turned:
            product = self.builder_.call_te(
                sums_in_lanes,
                *(rows, matrices),
                primfunc_name_hint="rows_product",
                primfunc_attrs={"op_pattern": OPAQUE},
            )
        else:
            product = relax.op.matmul(rows, matrices)
        return relax.op.reshape(self.builder_.emit(product), call.ty.shape)

    def _operand_of(self, call: Any) -> _Operand | None:
        """What a call multiplies a few rows with, if that is worth a change."""
        if operator_of(call) != MATMUL or {str(each.ty.dtype) for each in call.args} != {"float32"}:
            return None
        rows, known = extents_of(call.args[0]), extents_of(call.args[1])
        if rows is None or known is None or min(len(rows), len(known)) < _MATRIX:
            return None
        found = self._source(_Operand(call.args[1]))
        extents = extents_of(found.matrices)
        if extents is None or is_constant(self._values.get(found.matrices, found.matrices)):
            return None
        has_heads = math.prod(rows[:-2]) == math.prod(known[:-2]) == found.copies * math.prod(extents[:-2])
        is_few = rows[-2] <= _MAX_ROWS and found.copies * rows[-2] <= _MAX_SHARED
        if not (has_heads and is_few) or math.prod(extents) < _MIN_ELEMENTS:
            return None
        if found.is_turned:
            return found if extents[-1] % _LANES == 0 and rows_at_once(extents[-2]) >= _MIN_STEP else None
        return found if found.copies > 1 else None

    def _source(self, operand: _Operand) -> _Operand:
        """The operand without the steps that made it, of which nothing else reads a result."""
        while True:
            expression = operand.matrices
            value = self._values.get(expression) if isinstance(expression, relax.Var) else None
            if value is None or self._uses.get(expression, 0) > 1:
                return operand
            before = _without_step(operand, value)
            if before is None:
                return operand
            operand = before

    def _matrices(self, expression: Any) -> Any:
        """An operand with one axis for all matrices."""
        return self._reshaped(self.visit_expr(expression), (-1, *integers(expression.ty.shape)[-_MATRIX:]))

    def _reshaped(self, value: Any, shape: tuple[int, ...]) -> Any:
        extents = tuple(integers(value.ty.shape))
        rest = math.prod(extents) // math.prod(each for each in shape if each > 0)
        whole = tuple(rest if each < 0 else each for each in shape)
        return value if whole == extents else self.builder_.emit(relax.op.reshape(value, whole))


def _without_step(operand: _Operand, value: Any) -> _Operand | None:
    """The operand that ``value``, a call, made of another one; None if the call is none of these steps."""
    operator, after = operator_of(value), extents_of(value)
    if operator == "relax.multiply":
        return _without_factor(operand, value)
    before = extents_of(value.args[0]) if getattr(value, "args", None) else None
    if before is None or after is None or min(len(before), len(after)) < _MATRIX:
        return None
    if operator == "relax.permute_dims":
        axes = list(range(len(after)))[::-1] if value.attrs.axes is None else integers(value.attrs.axes)
        is_turn = axes == [*range(len(after) - 2), len(after) - 1, len(after) - 2]
        return replace(operand, matrices=value.args[0], is_turned=not operand.is_turned) if is_turn else None
    if before[-_MATRIX:] != after[-_MATRIX:]:
        return None
    if operator in {"relax.reshape", "relax.expand_dims"}:
        return replace(operand, matrices=value.args[0])
    if operator == "relax.broadcast_to":
        copies = _copies(before[:-_MATRIX], after[:-_MATRIX])
        return None if copies is None else replace(operand, matrices=value.args[0], copies=operand.copies * copies)
    return None


def _without_factor(operand: _Operand, value: Any) -> _Operand | None:
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


def rows_at_once(count: int) -> int:
    """How many rows of a matrix are summed without a loop: a divisor of their number."""
    return next(each for each in range(_LANES, 0, -1) if count % each == 0)


def sums_in_lanes(rows: te.Tensor, matrices: te.Tensor) -> te.Tensor:
    """Products of rows (heads, rows, elements) and (heads, count, elements), as (heads, rows, count).

    Each lane of a vector has sums of its own, which are added in the end.
    """
    (heads, number, elements), count = rows.shape, matrices.shape[1]
    step, lane = te.reduce_axis((0, int(elements) // _LANES), name="step"), te.reduce_axis((0, _LANES), name="lane")

    def partial_sum(head: Any, row: Any, at: Any, own: Any) -> Any:
        place = step * _LANES + own
        return te.sum(rows[head, row, place] * matrices[head, at, place], axis=step)

    shape = (heads, number, count, _LANES)
    sums = te.compute(shape, partial_sum, name="partial", attrs={LANE_SUMS: "partial"})

    def total(head: Any, row: Any, at: Any) -> Any:
        return te.sum(sums[head, row, at, lane], axis=lane)

    return te.compute(shape[:3], total, name="total")
