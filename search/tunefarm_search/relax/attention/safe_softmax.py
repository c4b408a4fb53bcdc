"""Plain softmax in place of one that guards against rows of minus infinity, where no row is one.

torch exports attention with a softmax whose rows become zeros, in place of NaN, if all their scores are minus infinity:
it compares, reduces and selects, which takes as long as the softmax.
"""

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.attention.bounds import BoundsAnalysis
from tunefarm_search.relax.constants import array_of, is_constant
from tunefarm_search.relax.expressions import operator_of


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
        self._bounds = BoundsAnalysis(function)

    def visit_call_(self, call: Any) -> Any:
        softmax = self._guarded(call)
        return self.visit_expr_post_order(call) if softmax is None else self.visit_expr(softmax)

    def _guarded(self, call: Any) -> Any:
        """The softmax that ``call`` replaces by zeros in rows that cannot be; None if it is something else."""
        if operator_of(call) != "relax.where":
            return None
        condition, zeros, selected = call.args
        softmax, scores = self._softmax(selected)
        if softmax is None or not self._is_zero(zeros) or not self._is_row_test(condition, scores):
            return None
        return selected if self._has_number_in_each_row(scores) else None

    def _softmax(self, selected: Any) -> tuple[Any, Any]:
        found = self._bounds.value(selected)
        if operator_of(found) != "relax.nn.softmax" or int(found.attrs.axis) not in (-1, len(found.ty.shape) - 1):
            return None, None
        return found, found.args[0]

    def _is_zero(self, value: Any) -> bool:
        found = self._bounds.of(value)
        return found is not None and not found.low.any() and not found.high.any()

    def _is_row_test(self, condition: Any, scores: Any) -> bool:
        """Whether it holds in rows whose scores are all minus infinity: no maximum over a row of what is not that."""
        negated = self._bounds.value(condition)
        if operator_of(negated) != "relax.logical_not":
            return False
        greatest = self._without_casts(negated.args[0])
        if operator_of(greatest) not in ("relax.max", "relax.any") or not bool(greatest.attrs.keepdims):
            return False
        axes = [int(axis) for axis in greatest.attrs.axis or ()]
        unequal = self._without_casts(greatest.args[0])
        if axes not in ([-1], [len(greatest.ty.shape) - 1]):
            return False
        if operator_of(unequal) == "relax.logical_not":
            compared, operator = self._without_casts(unequal.args[0]), "relax.equal"
        else:
            compared, operator = unequal, "relax.not_equal"
        return operator_of(compared) == operator and self._compares_with_infinity(compared, scores)

    def _compares_with_infinity(self, compared: Any, scores: Any) -> bool:
        one, other = (self._bounds.value(each) for each in compared.args)
        if is_constant(one):
            one, other = other, one
        is_infinity = is_constant(other) and bool(np.all(np.isneginf(array_of(other))))
        return is_infinity and bool(one.same_as(self._bounds.value(scores)))

    def _without_casts(self, expression: Any) -> Any:
        """What is cast, where casts keep what is zero and what is not: from bool, and to it."""
        found = self._bounds.value(expression)
        while operator_of(found) == "relax.astype" and "bool" in (str(found.ty.dtype), str(found.args[0].ty.dtype)):
            found = self._bounds.value(found.args[0])
        return found

    def _has_number_in_each_row(self, scores: Any) -> bool:
        bounds = self._bounds.of(scores)
        if bounds is None:
            return False
        possible = ~np.isneginf(bounds.low)
        return bool(np.all(np.any(possible, axis=-1))) if possible.ndim else bool(possible)
