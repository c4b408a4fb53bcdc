"""Indices that stay inside of what they index, whatever a model is called with.

TVM reads and writes at the indices that it gets. A token beyond an embedding would read memory that is none of the
model's, and a position beyond a cache would overwrite it.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.constants import Array, array_of, constant_of, is_constant
from tunefarm_search.relax.expressions import extents_of, operator_of, rewritten, value_of

_TAKE: Final = "relax.take"
_UNCHECKED: Final = "fast"
_ALONG_AXIS: Final = frozenset({"relax.gather_elements", "relax.scatter_elements"})
"""Their indices are those of one axis of the data."""
_OF_POSITIONS: Final = frozenset({"relax.gather_nd", "relax.scatter_nd"})
"""The last axis of their indices has one index for each of the first axes of the data."""
_OF_AXES: Final = frozenset({"relax.index_tensor", "relax.index_put"})
"""They have a tuple of indices, for the first axes of the data."""
_OF_IMAGES: Final = frozenset({"relax.vision.roi_align", "relax.vision.roi_pool"})
"""The first of the five columns of their regions says which image a region is of."""


def with_clipped_indices(module: Any) -> Any:
    """Make operators use the first or last element in place of those that do not exist, unless indices are known.

    Operators other than ``take`` count negative indices from the end, and clip what is below.
    """
    return rewritten(module, _Clipping(module))


@mutator
class _Clipping(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        name = operator_of(visited)
        if name == _TAKE and str(visited.attrs.mode) == _UNCHECKED:
            return self._clipped_take(visited)
        if name not in _ALONG_AXIS | _OF_POSITIONS | _OF_AXES | _OF_IMAGES:
            return visited
        data, indices, *others = visited.args
        extents = extents_of(data)
        if not extents or 0 in extents:
            return visited
        return relax.Call(visited.op, [data, self._inside(visited, indices, extents), *others], visited.attrs)

    def _inside(self, call: Any, indices: Any, extents: tuple[int, ...]) -> Any:
        """The indices of data of such ``extents``, made to stay inside."""
        name, shape = operator_of(call), extents_of(indices)
        if name in _ALONG_AXIS:
            return self._clipped(indices, [extents[int(call.attrs.axis)]])
        if name in _OF_POSITIONS and shape:
            first = int(getattr(call.attrs, "batch_dims", 0))
            return self._clipped(indices, extents[first : first + shape[-1]])
        if name in _OF_IMAGES:
            return self._regions(indices, extents[0])
        tuple_of_axes = value_of(indices, self.lookup_binding)
        if not isinstance(tuple_of_axes, relax.Tuple):
            return indices
        pairs = zip(tuple_of_axes.fields, extents, strict=False)
        return relax.Tuple([self._clipped(each, [extent]) for each, extent in pairs])

    def _regions(self, regions: Any, images: int) -> Any:
        emit = self.builder_.emit
        image = emit(relax.op.clip(emit(relax.op.strided_slice(regions, [1], [0], [1])), 0, images - 1))
        return emit(relax.op.concat([image, emit(relax.op.strided_slice(regions, [1], [1], [5]))], axis=1))

    def _clipped_take(self, call: Any) -> Any:
        axis, extents = call.attrs.axis, extents_of(call.args[0])
        if extents and self._stay_inside(call.args[1], [extents[0 if axis is None else int(axis)]]):
            return call
        return relax.op.take(*call.args, axis=None if axis is None else int(axis), mode="clip")

    def _clipped(self, indices: Any, extents: Sequence[int]) -> Any:
        """Indices whose last axis has one for each extent, or that are all for the same."""
        if self._stay_inside(indices, extents):
            return indices
        counts = np.array(extents, str(indices.ty.dtype))
        zero, last, count = map(constant_of, (np.zeros_like(counts), counts - 1, counts))
        emit = self.builder_.emit
        from_end = emit(relax.op.add(indices, count))
        counted = emit(relax.op.where(emit(relax.op.less(indices, zero)), from_end, indices))
        return emit(relax.op.minimum(emit(relax.op.maximum(counted, zero)), last))

    def _stay_inside(self, indices: Any, extents: Sequence[int]) -> bool:
        known = value_of(indices, self.lookup_binding)
        if not is_constant(known):
            return False
        return are_inside(array_of(known), extents)


def are_inside(indices: Array, extents: Sequence[int]) -> bool:
    """Whether indices, whose last axis has one for each extent or that are all for the same, are of elements."""
    return bool(np.all(indices >= 0) and np.all(indices < np.array(extents)))
