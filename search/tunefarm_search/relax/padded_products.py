"""Matrix products whose number of rows no tile divides, such as that of the 197 tokens of a vision transformer.

A tile of one row loads a vector of the other matrix for each product. So sums are computed for a few rows more, which
read the last row again, and only the rows that were asked for are kept.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import tvm
from tvm import te

from tunefarm_search.relax.expressions import extents_of

_MATMUL: Final = "relax.matmul"
_TILES: Final = range(4, 17)
"""Rows that a tile in registers may have."""
_MULTIPLE: Final = 8
_MAX_MORE: Final = 1.15
"""Times as many rows. Measured for 197 instead of 200 rows (1.02), where sums ran 1.7 to 2.1 times as fast."""


def padded_rows(rows: int) -> int:
    """How many rows to compute for ``rows`` of them: as many where a tile divides them, or too many would be added."""
    if any(rows % tile == 0 for tile in _TILES):
        return rows
    padded = -(-rows // _MULTIPLE) * _MULTIPLE
    return padded if padded <= _MAX_MORE * rows else rows


def _legalized(builder: Any, call: Any) -> Any:
    """A product of matrices as a call of a TIR function."""
    shapes = [extents_of(each) for each in call.args]
    default: Callable[[Any, Any], Any] = tvm.ir.Op.get(_MATMUL).get_attr("FLegalize")
    if any(shape is None or len(shape) < 2 for shape in shapes):
        return default(builder, call)
    result = extents_of(call)
    if result is None or padded_rows(result[-2]) == result[-2]:
        return default(builder, call)
    return builder.call_te(_padded, *call.args, result, str(call.ty.dtype), primfunc_name_hint="matmul")


LEGALIZATION: Final[Mapping[str, Callable[[Any, Any], Any]]] = MappingProxyType({_MATMUL: _legalized})
"""For TVM's pass ``LegalizeOps``."""


def _padded(left: te.Tensor, right: te.Tensor, result: Sequence[int], dtype: str) -> te.Tensor:
    *batch, rows, columns = result
    inner = te.reduce_axis((0, left.shape[-1]), name="k")

    def product(*indices: Any) -> Any:
        *first, row, column = indices
        factors = (
            left(*_aligned(left, first), te.min(row, rows - 1), inner),
            right(*_aligned(right, first), inner, column),
        )
        one, other = (each if each.ty.dtype == dtype else each.astype(dtype) for each in factors)
        return te.sum(one * other, axis=inner)

    sums = te.compute((*batch, padded_rows(rows), columns), product, name="matmul")
    return te.compute(result, sums, name="rows")


def _aligned(tensor: te.Tensor, indices: Sequence[Any]) -> list[Any]:
    """The indices of a tensor's batch axes in those of the result, of which it may lack some or have one element."""
    extents = [int(each) for each in tensor.shape[:-2]]
    own = indices[len(indices) - len(extents) :]
    return [0 if extent == 1 else index for extent, index in zip(extents, own, strict=True)]
