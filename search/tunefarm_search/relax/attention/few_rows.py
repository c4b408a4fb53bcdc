"""Products of a few rows and a matrix that a run computes, such as the scores of one token and its sums of values.

As written, the matrix is transposed first, and repeated for heads that share it. Both take several times as long as the
product.
"""

import math
from typing import Any, Final

import numpy as np
from tvm import relax, te
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.attention.operands import MATRIX, OperandFinder, ProductOperand, in_matrices, reshaped
from tunefarm_search.relax.constants import is_constant
from tunefarm_search.relax.expressions import MATMUL, OPAQUE, extents_of, integers, operator_of, rewritten
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


def with_products_of_few_rows(module: Any) -> Any:
    """Multiply a few rows with matrices as they are, neither transposed nor repeated."""
    rewriting = _FewRows(module)
    return rewritten(module, rewriting, rewriting.changed)


@mutator
class _FewRows(PyExprMutator):  # type: ignore[misc]
    _operands: OperandFinder
    """Of the function that is visited."""

    def changed(self, function: Any) -> Any:
        """The function with such products changed."""
        self._operands = OperandFinder(function)
        return self.visit_expr(function)

    def visit_call_(self, call: Any) -> Any:
        """Replace a product whose matrices nothing else transposes or repeats."""
        operand = self._operand_of(call)
        if operand is None:
            return self.visit_expr_post_order(call)
        matrices = in_matrices(self.builder_, self.visit_expr(operand.matrices))
        shape = (int(matrices.ty.shape[0]), -1, integers(call.args[0].ty.shape)[-1])
        rows = reshaped(self.builder_, self.visit_expr(call.args[0]), shape)
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

    def _operand_of(self, call: Any) -> ProductOperand | None:
        """What a call multiplies a few rows with, if that is worth a change."""
        if operator_of(call) != MATMUL or {str(each.ty.dtype) for each in call.args} != {"float32"}:
            return None
        rows, known = extents_of(call.args[0]), extents_of(call.args[1])
        if rows is None or known is None or min(len(rows), len(known)) < MATRIX:
            return None
        found = self._operands.source(call.args[1])
        extents = extents_of(found.matrices)
        if extents is None or is_constant(self._operands.values.get(found.matrices, found.matrices)):
            return None
        has_heads = math.prod(rows[:-2]) == math.prod(known[:-2]) == found.copies * math.prod(extents[:-2])
        is_few = rows[-2] <= _MAX_ROWS and found.copies * rows[-2] <= _MAX_SHARED
        if not (has_heads and is_few) or math.prod(extents) < _MIN_ELEMENTS:
            return None
        if found.is_turned:
            return found if extents[-1] % _LANES == 0 and rows_at_once(extents[-2]) >= _MIN_STEP else None
        return found if found.copies > 1 else None


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
