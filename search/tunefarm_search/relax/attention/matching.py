"""Finds attention in a function of Relax operators: products, scale, mask, softmax and sums."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from tvm import relax

from tunefarm_search.relax.attention.guard import GuardMatcher
from tunefarm_search.relax.attention.softmax_rows import is_softmax_of_rows
from tunefarm_search.relax.expressions import MATMUL, extents_of, operator_of, scalar_of, value_of

_RESHAPE: Final = "relax.reshape"
_WHERE: Final = "relax.where"
_ADD: Final = "relax.add"
_MULTIPLY: Final = "relax.multiply"
_SCALES: Final = frozenset({_MULTIPLY, "relax.divide"})
HIDDEN: Final = -1e30
"""A score of this or less counts for nothing. Added to any score that layers compute, it stays what it is."""
_MATRIX: Final = 2
"""The axes of rows and keys, which are the last."""


@dataclass(frozen=True)
class Mask:
    """What is added to scores.

    Attributes:
        tensor: an expression whose last two axes are rows and keys.
        rows: those of the scores, or one that all of them share.
        groups: the product of its other axes.
        heads_of_group: consecutive heads that share a matrix of the mask.
    """

    tensor: Any
    rows: int
    groups: int
    heads_of_group: int


@dataclass(frozen=True)
class Scores:
    """``scale * queries @ keys + mask``.

    Attributes:
        product: the call that multiplies queries and keys.
    """

    product: Any
    scale: float = 1.0
    mask: Mask | None = None


@dataclass(frozen=True)
class Attention:
    """``softmax(scores) @ values``, all of one function.

    Attributes:
        is_guarded: whether a row whose scores are all minus infinity gives zeros. Else it gives NaN.
    """

    scores: Scores
    values: Any
    is_guarded: bool


def matrices_of(expression: Any) -> tuple[int, int, int] | None:
    """The number of matrices along the last two axes, their rows and columns; None if there is no matrix."""
    extents = extents_of(expression)
    if extents is None or len(extents) < _MATRIX:
        return None
    *outer, rows, columns = extents
    return math.prod(outer), rows, columns


class AttentionMatcher:
    """Matches calls of one function."""

    def __init__(self, function: Any) -> None:
        self._guards = GuardMatcher(function)
        self._values = dict(relax.analysis.get_var2val(function).items())
        self._reads = Counter(relax.analysis.free_vars(function.body.body))
        for value in self._values.values():
            self._reads.update(relax.analysis.free_vars(value))

    def match(self, call: Any) -> Attention | None:
        """The attention whose sums of values ``call`` computes, if nothing else reads what is between."""
        if operator_of(call) != MATMUL:
            return None
        powers = self._read(call.args[0])
        guarded = self._guards.guarded(powers)
        # A guard reads the scores, too, and the softmax again where it fills zeros into its shape.
        readers = 1 if guarded is None else 2
        powers = powers if guarded is None else self._read(guarded, readers)
        if not is_softmax_of_rows(powers):
            return None
        scores = self._scores(powers.args[0], readers=readers, may_have_mask=True)
        if scores is None or matrices_of(scores.product) != matrices_of(call.args[0]):
            return None
        return Attention(scores, call.args[1], guarded is not None)

    def _read(self, expression: Any, readers: int = 1) -> Any:
        """What a variable with at most so many readers stands for, through reshapes that keep the last axis."""
        while isinstance(expression, relax.Var) and self._reads[expression] <= readers and expression in self._values:
            value, readers = self._values[expression], 1
            if operator_of(value) != _RESHAPE:
                return value
            whole, viewed = extents_of(value), extents_of(value.args[0])
            if whole is None or viewed is None or whole[-1:] != viewed[-1:]:
                return None
            expression = value.args[0]
        return None

    def _scores(self, expression: Any, *, readers: int = 1, may_have_mask: bool = False) -> Scores | None:
        """The scores that ``expression`` is. A mask is added after the scale, so none may be in what is scaled."""
        value = self._read(expression, readers)
        operator = operator_of(value)
        if operator == MATMUL:
            return Scores(value)
        if operator in _SCALES:
            return self._scaled(value)
        if operator == _ADD and may_have_mask:
            one, other = value.args
            return self._masked(value, one, other) or self._masked(value, other, one)
        return self._replaced(value) if operator == _WHERE and may_have_mask else None

    def _scaled(self, value: Any) -> Scores | None:
        one, other = value.args
        if operator_of(value) == _MULTIPLY and scalar_of(one) is not None:
            one, other = other, one
        scale = scalar_of(other)
        found = self._scores(one) if scale else None
        if found is None or scale is None:
            return None
        return replace(found, scale=found.scale * (scale if operator_of(value) == _MULTIPLY else 1 / scale))

    def _masked(self, total: Any, scores: Any, mask: Any) -> Scores | None:
        """Scores to which a mask is added."""
        found = self._scores(scores)
        fitting = None if found is None else _mask_for(total, mask, found.product)
        return None if found is None or fitting is None else replace(found, mask=fitting)

    def _replaced(self, selected: Any) -> Scores | None:
        """Scores some of which are replaced by a number so low that they count for nothing."""
        condition, *branches = selected.args
        for scores, hidden in (branches, branches[::-1]):
            number = scalar_of(value_of(hidden, self._values.get))
            found = self._scores(scores) if number is not None and number <= HIDDEN else None
            fitting = None if found is None else _mask_for(selected, condition, found.product)
            if found is not None and fitting is not None:
                added = [relax.const(np.float32(number if each is hidden else 0)) for each in branches]
                return replace(found, mask=replace(fitting, tensor=relax.op.where(condition, *added)))
        return None


def _mask_for(scores: Any, mask: Any, product: Any) -> Mask | None:
    """How heads and rows of ``product``, of shape (..., rows, keys), share a mask; None if it does not fit."""
    whole, own, matrices = extents_of(scores), extents_of(mask), matrices_of(scores)
    if whole is None or own is None or matrices is None or len(own) > len(whole):
        return None
    own = (1,) * (len(whole) - len(own)) + own
    (rows, keys), outer = own[-_MATRIX:], own[:-_MATRIX]
    heads = matrices[0]
    if matrices != matrices_of(product) or keys != whole[-1] or rows not in (1, whole[-2]):
        return None
    # Heads of a group follow one another if the mask has the first axes of the scores, and one for the others.
    kept = next((axis for axis, extent in enumerate(outer) if extent != whole[axis]), len(outer))
    groups = math.prod(outer[:kept])
    return Mask(mask, rows, groups, heads // groups) if math.prod(outer) == groups else None
