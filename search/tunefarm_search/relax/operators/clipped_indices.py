"""Indices that stay inside of what they index, whatever a model is called with.

TVM reads rows at the indices that it gets. A token beyond an embedding would read memory that is none of the model's.
"""

from typing import Any, Final

from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.constants import array_of, is_constant
from tunefarm_search.relax.expressions import extents_of, operator_of, rewritten, value_of

_TAKE: Final = "relax.take"
_UNCHECKED: Final = "fast"


def with_clipped_indices(module: Any) -> Any:
    """Make ``take`` read the first or last row in place of rows that do not exist, unless its indices are known."""
    return rewritten(module, _Clipping(module))


@mutator
class _Clipping(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        if operator_of(visited) != _TAKE or str(visited.attrs.mode) != _UNCHECKED or self._stays_inside(visited):
            return visited
        axis = visited.attrs.axis
        return relax.op.take(*visited.args, axis=None if axis is None else int(axis), mode="clip")

    def _stays_inside(self, call: Any) -> bool:
        indices, extents = value_of(call.args[1], self.lookup_binding), extents_of(call.args[0])
        if not is_constant(indices) or not extents:
            return False
        known, axis = array_of(indices), call.attrs.axis
        extent = extents[0 if axis is None else int(axis)]
        return bool(known.size == 0 or (known.min() >= 0 and known.max() < extent))
