"""Plain softmax in place of one that guards against rows of minus infinity, where no row is one.

The guard takes as long as the softmax.
"""

from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.attention.guard import GuardMatcher


def with_plain_softmax(module: Any) -> Any:
    """Remove the guard of a softmax along the last axis if each of its rows has a number above minus infinity.

    It does if no mask is added to its scores, if each row of a constant mask has an entry that is not minus infinity,
    or if a computed mask is finite. Scores themselves are taken to be finite: they are sums of products.
    """
    changed = tvm.IRModule(module.functions, attrs=module.attrs)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            changed.update_func(variable, _Unguarding(changed, function).visit_expr(function))
    return changed


@mutator
class _Unguarding(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any, function: Any) -> None:
        super().__init__(module)
        self._guards = GuardMatcher(function)

    def visit_call_(self, call: Any) -> Any:
        softmax = self._guards.guarded(call)
        if softmax is None or self._guards.is_needed(softmax):
            return self.visit_expr_post_order(call)
        return self.visit_expr(softmax)
