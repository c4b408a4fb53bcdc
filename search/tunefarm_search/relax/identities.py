"""Operators that return the elements that they are given in the same order.

Those that return the same shape, such as the expansions that torch puts around its matmuls, are removed: fused with a
view, one would be a function that copies a tensor. Transpositions of axes with one element become reshapes, which are
views. Elementwise operators behind a reshaped product are computed before the reshape, so that they are fused with it.
"""

from collections.abc import Callable
from typing import Any, Final

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.expressions import BINARY, ELEMENTWISE, extents_of, operator_of, value_of

_PRODUCTS: Final = frozenset({"relax.matmul", "relax.nn.conv1d", "relax.nn.conv2d"})
_MAX_FUSED: Final = 4
"""Operators behind a product that are looked through."""
_SHAPED: Final = frozenset({"relax.broadcast_to", "relax.reshape"})


def without_identities(module: Any) -> Any:
    """Return the module with the argument in place of each operator that gives it the shape that it has."""
    return _rewritten(module, _Removing)


def with_views(module: Any) -> Any:
    """Return the module with reshapes for transpositions that keep the order, and behind elementwise operators."""
    return _rewritten(module, _Reshaping)


def _rewritten(module: Any, mutator_of: Callable[[Any], Any]) -> Any:
    replaced = tvm.IRModule(module.functions, attrs=module.attrs)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            replaced.update_func(variable, mutator_of(replaced).visit_expr(function))
    return replaced


@mutator
class _Reshaping(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        name = operator_of(visited)
        if name == "relax.permute_dims":
            return _as_reshape(visited, call)
        if name == "relax.reshape":
            return self._merged(visited)
        shape = extents_of(call)
        if shape is None or name not in ELEMENTWISE | BINARY:
            return visited
        if any(extents_of(each) != shape for each in visited.args[: 2 if name in BINARY else 1]):
            return visited
        return self._before_reshape(visited, shape, is_binary=name in BINARY)

    def _merged(self, reshape: Any) -> Any:
        """One reshape of what others reshaped before; that itself if it has the shape."""
        data = reshape.args[0]
        while operator_of(value := self._value(data)) == "relax.reshape":
            data = value.args[0]
        return data if extents_of(data) == extents_of(reshape) is not None else relax.op.reshape(data, reshape.args[1])

    def _before_reshape(self, call: Any, shape: tuple[int, ...], *, is_binary: bool) -> Any:
        """The reshape of the elementwise ``call`` on a product; the call if no operand is a reshaped product."""
        operands = list(call.args)
        products = [self._reshaped_product(each) for each in operands[: 2 if is_binary else 1]]
        found = [each for each in products if each is not None]
        # Another product would lose the operator that is fused with it.
        if not found or (is_binary and any(map(self._is_product, operands))):
            return call
        inner = found[0]
        others = [
            product if _same_shape(product, inner) else self.builder_.emit(relax.op.reshape(each, inner.ty.shape))
            for each, product in zip(operands, products, strict=False)
        ]
        computed = self.builder_.emit(relax.Call(call.op, [*others, *operands[len(products) :]], call.attrs))
        return relax.op.reshape(computed, shape)

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
    if extents is None:
        return visited
    axes = range(len(extents))[::-1] if visited.attrs.axes is None else visited.attrs.axes
    moved = [int(axis) % len(extents) for axis in axes if extents[int(axis)] > 1]
    return relax.op.reshape(visited.args[0], extents_of(call)) if moved == sorted(moved) else visited


@mutator
class _Removing(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        if operator_of(visited) not in _SHAPED:
            return visited
        data = visited.args[0]
        return data if extents_of(data) == extents_of(call) is not None else visited
