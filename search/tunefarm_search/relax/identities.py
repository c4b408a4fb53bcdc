"""Operators that return the elements that they are given in the same order.

Those that return the same shape, such as the expansions that torch puts around its matmuls, are removed: fused with a
view, one would be a function that copies a tensor. Transpositions of axes with one element become reshapes, which are
views.
"""

from typing import Any, Final

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.expressions import operator_of

_SHAPED: Final = frozenset({"relax.broadcast_to", "relax.reshape"})


def without_identities(module: Any) -> Any:
    """Return the module with the argument in place of each operator that gives it the shape that it has."""
    replaced = tvm.IRModule(module.functions, attrs=module.attrs)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            replaced.update_func(variable, _Removing(replaced).visit_expr(function))
    return replaced


def with_views(module: Any) -> Any:
    """Return the module with reshapes in place of transpositions that keep the order of the elements."""
    replaced = tvm.IRModule(module.functions, attrs=module.attrs)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            replaced.update_func(variable, _Reshaping(replaced).visit_expr(function))
    return replaced


@mutator
class _Reshaping(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        extents = _extents(visited.args[0]) if operator_of(visited) == "relax.permute_dims" else None
        if extents is None:
            return visited
        axes = range(len(extents))[::-1] if visited.attrs.axes is None else visited.attrs.axes
        moved = [int(axis) % len(extents) for axis in axes if extents[int(axis)] > 1]
        return relax.op.reshape(visited.args[0], _extents(call)) if moved == sorted(moved) else visited


@mutator
class _Removing(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        if operator_of(visited) not in _SHAPED:
            return visited
        data = visited.args[0]
        return data if _extents(data) == _extents(call) is not None else visited


def _extents(value: Any) -> tuple[int, ...] | None:
    """The shape of a tensor; None if it is not constant."""
    try:
        return tuple(int(extent) for extent in value.ty.shape)
    except (TypeError, AttributeError):
        return None
