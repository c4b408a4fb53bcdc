"""Operators that return the elements that they are given in the same order.

Those that return the same shape, such as the expansions that torch puts around its matmuls, are removed: fused with a
view, one would be a function that copies a tensor. Concatenations lose operands without elements. A matrix that is
repeated for each matrix of the other operand of a product is used once, and multiplies the rows of all of them.
Transpositions of axes with one element become reshapes, which are views. Elementwise operators behind a reshaped
product are computed before the reshape, so that they are fused with it.
"""

import math
from typing import Any, Final

from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.expressions import BINARY, ELEMENTWISE, MATMUL, extents_of, operator_of, rewritten, value_of

_PRODUCTS: Final = frozenset({MATMUL, "relax.nn.conv1d", "relax.nn.conv2d"})
_MAX_FUSED: Final = 4
"""Operators behind a product that are looked through."""
_CONCATENATION: Final = "relax.concat"
_SHAPED: Final = frozenset({"relax.broadcast_to", "relax.reshape"})


def without_identities(module: Any) -> Any:
    """Return the module with the argument in place of each operator that gives it the shape that it has."""
    return rewritten(module, _Removing(module))


def with_views(module: Any) -> Any:
    """Return the module with reshapes for transpositions that keep the order, and behind elementwise operators."""
    return rewritten(module, _Reshaping(module))


@mutator
class _Reshaping(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        name = operator_of(visited)
        if name == "relax.permute_dims":
            return _as_reshape(visited, call)
        if name == "relax.reshape":
            return self._merged(visited)
        if name == MATMUL:
            return self._of_all_rows(visited, call)
        shape = extents_of(call)
        if shape is None or name not in ELEMENTWISE | BINARY:
            return visited
        if any(extents_of(each) not in (shape, shape[-1:]) for each in visited.args[: 2 if name in BINARY else 1]):
            return visited
        return self._before_reshape(visited, shape, is_binary=name in BINARY)

    def _merged(self, reshape: Any) -> Any:
        """One reshape of what others reshaped before; that itself if it has the shape."""
        data = reshape.args[0]
        while operator_of(value := self._value(data)) == "relax.reshape":
            data = value.args[0]
        return data if extents_of(data) == extents_of(reshape) is not None else relax.op.reshape(data, reshape.args[1])

    def _of_all_rows(self, product: Any, call: Any) -> Any:
        """The product of several matrices and one, as the product of one with the rows of all; others as they are."""
        left, right = product.args
        rows, matrix, result = extents_of(left), extents_of(right), extents_of(call)
        if (
            rows is None
            or matrix is None
            or result is None
            or len(matrix) != 2
            or math.prod(rows[:-2]) <= 1
            or 0 in rows
        ):
            return product
        flat = self.builder_.emit(relax.op.reshape(left, (math.prod(rows[:-1]), rows[-1])))
        computed = self.builder_.emit(relax.op.matmul(flat, right, out_dtype=str(call.ty.dtype)))
        return relax.op.reshape(computed, result)

    def _before_reshape(self, call: Any, shape: tuple[int, ...], *, is_binary: bool) -> Any:
        """The reshape of the elementwise ``call`` on a product; the call if no operand is a reshaped product."""
        operands = list(call.args)
        products = [
            self._reshaped_product(each) if extents_of(each) == shape else None
            for each in operands[: 2 if is_binary else 1]
        ]
        inner = next((each for each in products if each is not None), None)
        # Another product would lose the operator that is fused with it.
        if inner is None or (is_binary and any(map(self._is_product, operands))):
            return call
        pairs = zip(operands, products, strict=False)
        others = [self._beside(inner, each, product, shape) for each, product in pairs]
        if any(each is None for each in others):
            return call
        computed = self.builder_.emit(relax.Call(call.op, [*others, *operands[len(products) :]], call.attrs))
        return relax.op.reshape(computed, shape)

    def _beside(self, inner: Any, operand: Any, product: Any, shape: tuple[int, ...]) -> Any:
        """An operand of shape ``shape``, or of its last axis alone, for ``inner``; None if the last axes differ."""
        if _same_shape(product, inner):
            return product
        if extents_of(operand) == shape:
            return self.builder_.emit(relax.op.reshape(operand, inner.ty.shape))
        return operand if (extents_of(inner) or ())[-1:] == shape[-1:] else None

    def _reshaped_product(self, expression: Any) -> Any:
        """What is reshaped, if it is a product with what may be fused with it; None for other expressions."""
        value = self._value(expression)
        is_view = operator_of(value) == "relax.reshape" and extents_of(value.args[0]) is not None
        return value.args[0] if is_view and self._is_product(value.args[0]) else None

    def _is_product(self, expression: Any, depth: int = _MAX_FUSED) -> bool:
        """Whether it is a product, or what up to ``depth`` operators compute of one."""
        value = self._value(expression)
        if operator_of(value) in ELEMENTWISE | BINARY and depth > 0:
            return any(self._is_product(each, depth - 1) for each in value.args)
        return operator_of(value) in _PRODUCTS

    def _value(self, expression: Any) -> Any:
        return value_of(expression, self.lookup_binding)


def _same_shape(one: Any, other: Any) -> bool:
    return one is not None and extents_of(one) == extents_of(other)


def _as_reshape(visited: Any, call: Any) -> Any:
    """A transposition as a reshape, if it keeps the order of the elements; else the transposition."""
    extents = extents_of(visited.args[0])
    if extents is None or 0 in extents:  # relax.reshape copies an extent for each 0
        return visited
    axes = range(len(extents))[::-1] if visited.attrs.axes is None else visited.attrs.axes
    moved = [int(axis) % len(extents) for axis in axes if extents[int(axis)] > 1]
    return relax.op.reshape(visited.args[0], extents_of(call)) if moved == sorted(moved) else visited


@mutator
class _Removing(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        if operator_of(visited) == MATMUL:
            return self._without_repetition(visited, call)
        if operator_of(visited) == _CONCATENATION:
            return self._without_nothing(visited)
        if operator_of(visited) not in _SHAPED:
            return visited
        data = visited.args[0]
        return data if extents_of(data) == extents_of(call) is not None else visited

    def _without_nothing(self, joined: Any) -> Any:
        """A concatenation without its operands that have no elements, as a cache has before the first step."""
        parts = value_of(joined.args[0], self.lookup_binding)
        if not isinstance(parts, relax.Tuple):
            return joined
        filled = [each for each in parts.fields if 0 not in (extents_of(each) or ())]
        if len(filled) in (0, len(parts.fields)):
            return joined
        return filled[0] if len(filled) == 1 else relax.op.concat(filled, joined.attrs.axis)

    def _without_repetition(self, product: Any, call: Any) -> Any:
        """The product of operands that are not repeated where the other one has as many matrices."""
        given = product.args[0], product.args[1]
        left = self._once(given[0], given[1], call)
        right = self._once(given[1], left, call)
        if left.same_as(given[0]) and right.same_as(given[1]):
            return product
        return relax.op.matmul(left, right, out_dtype=str(call.ty.dtype))

    def _once(self, operand: Any, other: Any, call: Any) -> Any:
        """What ``operand`` repeats, if the result has the shape that it has by the other one alone."""
        value = value_of(operand, self.lookup_binding)
        if operator_of(value) != "relax.broadcast_to":
            return operand
        repeated, whole, matrices, result = map(extents_of, (value.args[0], operand, other, call))
        if repeated is None or whole is None or matrices is None or result is None or len(repeated) < 2:
            return operand
        is_given_by_other = len(matrices) > 1 and matrices[:-2] == result[:-2]
        return value.args[0] if is_given_by_other and repeated[-2:] == whole[-2:] else operand
