"""Removes operators that return what they are given, such as the expansions that torch puts around its matmuls.

Fused with a view, such an operator would be a function that copies a tensor.
"""

from typing import Any, Final

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

_SHAPED: Final = frozenset({"relax.broadcast_to", "relax.reshape"})


def without_identities(module: Any) -> Any:
    """Return the module with the argument in place of each operator that gives it the shape that it has."""
    replaced = tvm.IRModule(module.functions, attrs=module.attrs)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            replaced.update_func(variable, _Removing(replaced).visit_expr(function))
    return replaced


@mutator
class _Removing(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        if getattr(visited.op, "name", "") not in _SHAPED:
            return visited
        data = visited.args[0]
        return data if _extents(data) == _extents(call) is not None else visited


def _extents(value: Any) -> tuple[int, ...] | None:
    """The shape of a tensor; None if it is not constant."""
    try:
        return tuple(int(extent) for extent in value.ty.shape)
    except (TypeError, AttributeError):
        return None
