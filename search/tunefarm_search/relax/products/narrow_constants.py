"""Finds constant matrices of products in fewer bits than the floats that they are multiplied as.

Weight-only quantization leaves them dequantized; models in halves compute sums in float32. They become constants of
floats, as all passes know them. What they were is kept beside, for products that read fewer bits
(``tunefarm_search.relax.products.narrow_weights``).
"""

import math
from typing import Any, Final

import numpy as np
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.constants import Array, constant_of, is_constant
from tunefarm_search.relax.expressions import MATMUL, extents_of, operator_of, rewritten, value_of
from tunefarm_search.relax.products.narrow_rows import narrow_rows
from tunefarm_search.relax.products.narrow_weights import NarrowWeights, narrow_weights
from tunefarm_search.relax.quantized_values import (
    QuantizedConstant,
    converted_constant,
    is_relaid,
    quantized_constant,
)

_MIN_ELEMENTS: Final = 1 << 14
"""Of a matrix. Reading fewer bytes of a smaller one saves less time than calling a function takes."""
_MIN_ALL_ELEMENTS: Final = 1 << 18
"""Of all matrices. Fewer stay in a core's cache as floats, where products read them as fast."""


class NarrowConstants:
    """What constants of floats were, by the constants."""

    def __init__(self) -> None:
        self._known: list[tuple[Any, QuantizedConstant | Array]] = []
        self._elements = 0

    def added(self, narrow: QuantizedConstant | Array) -> Any:
        """A new constant of float32 for quantized weights or halves."""
        if isinstance(narrow, QuantizedConstant):
            constant = constant_of(narrow.integers.astype(np.float32) * narrow.scales.astype(np.float32))
        else:
            constant = constant_of(narrow, "float32")
        self._known.append((constant.value, narrow))
        self._elements += math.prod(narrow.shape)
        return constant

    def weights(self, matrix: Any, rows: int) -> NarrowWeights | None:
        """The form of a Relax expression that is fastest for a product of so many rows; None if that is floats."""
        if self._elements < _MIN_ALL_ELEMENTS or not is_constant(matrix):
            return None
        found = self._found(matrix)
        return None if found is None else narrow_weights(found, rows)

    def bfloat16_matrix(self, matrix: Any) -> Array | None:
        """A Relax expression in bfloat16; None if it was not of that type."""
        found = self._found(matrix) if is_constant(matrix) else None
        if not isinstance(found, np.ndarray):
            return None
        return found if found.ndim == 2 and str(found.dtype) == "bfloat16" else None

    def _found(self, matrix: Any) -> QuantizedConstant | Array | None:
        return next((narrow for value, narrow in self._known if value.same_as(matrix.value)), None)


def with_narrow_constants(module: Any, halves: frozenset[str], found: NarrowConstants) -> Any:
    """The module with constants of float32 for the matrices of products that are narrower.

    Leaves products whose other operand is dequantized, too: they may be computed in integers.

    Args:
        module: a Relax module in dataflow form, whose products are of float32.
        halves: the types of 16 bits that the processor makes float32 of.
        found: gets what the matrices were.
    """
    return rewritten(module, _Finding(module, found, halves))


@mutator
class _Finding(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any, found: NarrowConstants, halves: frozenset[str]) -> None:
        super().__init__(module)
        self._found = found
        self._halves = halves

    def visit_call_(self, call: Any) -> Any:
        """Replace the matrix of a product, or rows of a table by those of a quantized one."""
        visited = self.visit_expr_post_order(call)
        if operator_of(visited) == "relax.take":
            return self._rows(visited)
        if operator_of(visited) != MATMUL or str(visited.ty.dtype) != "float32":
            return visited
        left, right = visited.args
        if is_constant(self._value(right)) or self._is_dequantized(left):
            return visited
        halves = converted_constant(right, self._value, self._halves)
        narrow = quantized_constant(right, self._value) if halves is None else halves
        if narrow is None or math.prod(narrow.shape) < _MIN_ELEMENTS:
            return visited
        return relax.op.matmul(left, self._found.added(narrow))

    def _rows(self, call: Any) -> Any:
        table, indices, *_ = call.args
        axis, shape = call.attrs.axis, extents_of(table)
        if axis is None or int(axis) != 0 or shape is None or extents_of(indices) is None:
            return call
        known = None if math.prod(shape) < _MIN_ALL_ELEMENTS else quantized_constant(table, self._value)
        if known is None or len(shape) != 2:
            return call
        # A row is a column of a product, of which scales are.
        narrow = narrow_weights(QuantizedConstant(known.integers.T, known.scales.T), 1)
        return call if narrow is None else narrow_rows(self.builder_, narrow, indices, str(call.ty.dtype))

    def _value(self, expression: Any) -> Any:
        return value_of(expression, self.lookup_binding)

    def _is_dequantized(self, expression: Any) -> bool:
        value = self._value(expression)
        while is_relaid(value):
            value = self._value(value.args[0])
        return operator_of(value) == "relax.dequantize"
