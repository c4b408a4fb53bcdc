"""Elements that are read or written at known indices, as slices one after the other.

Padding by reflection and rolling are exported as an index of each element, which TVM's function loads one by one.
Assignments to a part of a tensor are exported as ``slice_scatter``, which TVM fuses with nothing. Concatenated slices
are loops over whole rows, and are fused.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.constants import Array, array_of, is_constant
from tunefarm_search.relax.expressions import extents_of, integers, operator_of, rewritten, value_of
from tunefarm_search.relax.operators.clipped_indices import are_inside

MAX_RUNS: Final = 4
"""Slices of one axis: each is a loop of its own."""
MIN_ELEMENTS: Final = 8
"""Indices for each slice, on average. Fewer are looked up as quickly as they are copied."""


class _IndexRun(NamedTuple):
    """Indices from ``first`` to ``last``, both included, upwards or downwards."""

    first: int
    last: int


def with_slices(module: Any) -> Any:
    """Replace ``take`` with indices that are a few runs of neighbours, and ``slice_scatter`` with known bounds.

    Slices are reversed where indices fall.
    """
    return rewritten(module, _KnownPositions(module))


@mutator
class _KnownPositions(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        rewrite = {"relax.take": self._taken, "relax.slice_scatter": self._replaced}.get(operator_of(visited))
        parts = [] if rewrite is None else rewrite(visited)
        if not parts:
            return visited
        emitted = [self.builder_.emit(each) for each in parts]
        return emitted[0] if len(parts) == 1 else relax.op.concat(emitted, int(visited.attrs.axis))

    def _taken(self, call: Any) -> list[Any]:
        """The slices of which its result consists; none if it stays."""
        return [_slice(call.args[0], int(call.attrs.axis), each) for each in self._runs(call)]

    def _replaced(self, call: Any) -> list[Any]:
        """What is before the part that is replaced, that part, and what is after it; none if it stays."""
        (data, part, *bounds), axis = call.args, int(call.attrs.axis)
        extents, found = extents_of(data), extents_of(part)
        if extents is None or found is None or not all(isinstance(each, tvm.tirx.IntImm) for each in bounds):
            return []
        first, end, step = integers(bounds)
        if step != 1 or not 0 <= first < end <= extents[axis] or found[axis] != end - first:
            return []
        before = [] if first == 0 else [_slice(data, axis, _IndexRun(0, first - 1))]
        after = [] if end == extents[axis] else [_slice(data, axis, _IndexRun(end, extents[axis] - 1))]
        return [*before, part, *after]

    def _runs(self, call: Any) -> list[_IndexRun]:
        """Of the indices, if they are few and inside of the data; else none."""
        extents, known = extents_of(call.args[0]), value_of(call.args[1], self.lookup_binding)
        if extents is None or call.attrs.axis is None or not is_constant(known):
            return []
        indices = array_of(known)
        if indices.ndim != 1 or not indices.size or not are_inside(indices, [extents[int(call.attrs.axis)]]):
            return []
        runs = _runs_of(indices)
        return runs if len(runs) <= MAX_RUNS and len(runs) * MIN_ELEMENTS <= indices.size else []


def _runs_of(indices: Array) -> list[_IndexRun]:
    """Runs of neighbours, each as long as it can be, in order; stops after one more than ``MAX_RUNS``."""
    runs: list[_IndexRun] = []
    steps, start = np.diff(indices.astype(np.int64)), 0
    while start < len(indices) and len(runs) <= MAX_RUNS:
        end = start + 1
        if start < len(steps) and abs(steps[start]) == 1:
            others = np.flatnonzero(steps[start:] != steps[start])
            end = start + int(others[0]) + 1 if len(others) else len(indices)
        runs.append(_IndexRun(int(indices[start]), int(indices[end - 1])))
        start = end
    return runs


def _slice(data: Any, axis: int, run: _IndexRun) -> Any:
    low, high = sorted(run)
    part = relax.op.strided_slice(data, [axis], [low], [high + 1])
    return part if run.first <= run.last else relax.op.flip(part, axis)
