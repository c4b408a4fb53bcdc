"""The guard that torch's attention puts around its softmax.

Rows of a softmax become zeros, in place of NaN, if all their scores are minus infinity: the guard compares all scores,
reduces and selects.
"""

from typing import Any

import numpy as np

from tunefarm_search.relax.attention.bounds import BoundsAnalysis
from tunefarm_search.relax.attention.softmax_rows import is_softmax_of_rows
from tunefarm_search.relax.constants import array_of, is_constant
from tunefarm_search.relax.expressions import operator_of


class GuardMatcher:
    """Matches guards in one function."""

    def __init__(self, function: Any) -> None:
        self._bounds = BoundsAnalysis(function)

    def guarded(self, call: Any) -> Any:
        """The softmax that ``call`` replaces by zeros in rows of minus infinity; None if it is something else.

        The softmax is along the last axis. The call reads it, perhaps twice, and the guard reads its scores once.
        """
        if operator_of(call) != "relax.where":
            return None
        condition, zeros, selected = call.args
        softmax, scores = self._softmax(selected)
        is_guard = softmax is not None and self._is_zero(zeros) and self._is_row_test(condition, scores)
        return selected if is_guard else None

    def is_needed(self, selected: Any) -> bool:
        """Whether all scores of a row of a guarded softmax may be minus infinity."""
        bounds = self._bounds.of(self._softmax(selected)[1])
        if bounds is None:
            return True
        possible = ~np.isneginf(bounds.low)
        return not (bool(np.all(np.any(possible, axis=-1))) if possible.ndim else bool(possible))

    def _softmax(self, selected: Any) -> tuple[Any, Any]:
        found = self._bounds.value(selected)
        return (found, found.args[0]) if is_softmax_of_rows(found) else (None, None)

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
