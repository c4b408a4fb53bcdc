"""Softmax over a number of elements that no vector divides, such as the 197 tokens of a vision transformer.

LLVM adds such a row element by element, because the order of additions matters. So the row is copied to one of whole
vectors, which ends with minus infinity, whose exponential is zero. That of the lowest number is one where a mask makes
all elements of a row the lowest number.
"""

import math
from typing import Any, Final

import tvm
from tvm import te

from tunefarm_search.relax.expressions import extents_of, operator_of

SOFTMAX: Final = "relax.nn.softmax"
_ELEMENTS: Final = 32
"""Floats of two of the widest vectors, which hide the time that an addition takes."""
_SMALLEST_VECTOR: Final = 8
"""Of floats: a row that it divides is not copied."""
_MAX_MORE: Final = 1.3
"""Times as many elements. Measured for 64 instead of 50 (1.28), where a softmax ran twice as fast."""


def is_softmax_of_rows(call: Any) -> bool:
    """Whether an expression calls ``nn.softmax`` along the last axis."""
    return operator_of(call) == SOFTMAX and int(call.attrs.axis) in (-1, len(call.ty.shape) - 1)


def legalize_softmax(builder: Any, call: Any) -> Any:
    """A call of ``nn.softmax`` as one of a TIR function, for TVM's pass ``LegalizeOps``."""
    shape = extents_of(call) or (1,)
    is_padded = is_softmax_of_rows(call) and str(call.ty.dtype) == "float32"
    if not is_padded or padded_elements(shape[-1]) == shape[-1]:
        return tvm.ir.Op.get(SOFTMAX).get_attr("FLegalize")(builder, call)
    return builder.call_te(_softmax, call.args[0], primfunc_name_hint="softmax")


def padded_elements(elements: int) -> int:
    """How many elements to compute for a row of ``elements``: as many where vectors divide them, or in short rows."""
    padded = -(-elements // _ELEMENTS) * _ELEMENTS
    return elements if elements % _SMALLEST_VECTOR == 0 or padded > _MAX_MORE * elements else padded


def _softmax(tensor: te.Tensor) -> te.Tensor:
    *rows, elements = (int(extent) for extent in tensor.shape)
    filling = tvm.tirx.const(-math.inf, tensor.dtype)

    def copied(*at: Any) -> Any:
        return tvm.tirx.if_then_else(at[-1] < elements, tensor(*at), filling)

    wide = te.compute((*rows, padded_elements(elements)), copied, name="padded")
    inner = te.reduce_axis((0, wide.shape[-1]), name="k")
    largest = te.compute(rows, lambda *at: te.max(wide(*at, inner), axis=inner), name="largest")
    powers = te.compute(wide.shape, lambda *at: te.exp(wide(*at) - largest(*at[:-1])), name="powers")
    inner = te.reduce_axis((0, wide.shape[-1]), name="k")
    total = te.compute(rows, lambda *at: te.sum(powers(*at, inner), axis=inner), name="total")
    return te.compute(tensor.shape, lambda *at: powers(*at) / total(*at[:-1]), name="softmax")
