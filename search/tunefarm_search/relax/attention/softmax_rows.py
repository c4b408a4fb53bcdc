"""Softmax and its logarithm, with one division or logarithm for each row, and rows of whole vectors.

Where no vector divides the number of elements, such as the 197 tokens of a picture, LLVM adds a row element by element,
because the order of additions matters. So the row is copied to one of whole vectors, which ends with minus infinity,
whose exponential is zero. That of the lowest number is one where a mask makes all elements of a row the lowest number.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import tvm
from tvm import te

from tunefarm_search.relax.elementary.expressions import exp_without_overflow
from tunefarm_search.relax.expressions import extents_of, operator_of

SOFTMAX: Final = "relax.nn.softmax"
LOG_SOFTMAX: Final = "relax.nn.log_softmax"
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
    """A call of ``nn.softmax`` as one of a TIR function, for TVM's pass ``LegalizeOps``.

    TVM's function divides each element of a row, which takes longer than its exponential.
    """
    return _legalize(builder, call, _softmax, "softmax")


def legalize_log_softmax(builder: Any, call: Any) -> Any:
    """The same of ``nn.log_softmax``. TVM's function computes a logarithm for each element of a row."""
    return _legalize(builder, call, _log_softmax, "log_softmax")


def _legalize(builder: Any, call: Any, function: Callable[[te.Tensor, int], te.Tensor], name: str) -> Any:
    if extents_of(call) is None or str(call.ty.dtype) != "float32":
        return call.op.get_attr("FLegalize")(builder, call)
    axis = int(call.attrs.axis) % len(call.ty.shape)
    return builder.call_te(function, call.args[0], axis, primfunc_name_hint=name)


def padded_elements(elements: int) -> int:
    """How many elements to compute for a row of ``elements``: as many where vectors divide them, or in short rows."""
    padded = -(-elements // _ELEMENTS) * _ELEMENTS
    return elements if elements % _SMALLEST_VECTOR == 0 or padded > _MAX_MORE * elements else padded


def _softmax(tensor: te.Tensor, axis: int) -> te.Tensor:
    powers, _, total = _powers(tensor, axis)
    reciprocal = te.compute(total.shape, lambda *at: 1 / total(*at), name="reciprocal")

    def element(*at: Any) -> Any:
        return powers(*at) * reciprocal(*at[:axis], *at[axis + 1 :])

    return te.compute(tensor.shape, element, name="softmax")


def _log_softmax(tensor: te.Tensor, axis: int) -> te.Tensor:
    _, largest, total = _powers(tensor, axis)
    logarithm = te.compute(total.shape, lambda *at: te.log(total(*at)), name="logarithm")

    def element(*at: Any) -> Any:
        row = (*at[:axis], *at[axis + 1 :])
        return tensor(*at) - largest(*row) - logarithm(*row)

    return te.compute(tensor.shape, element, name="log_softmax")


def _powers(tensor: te.Tensor, axis: int) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """The exponential of each element less the largest of its row, that largest, and the sum of the row's powers."""
    wide = _padded(tensor) if axis == len(tensor.shape) - 1 else tensor
    rows = (*wide.shape[:axis], *wide.shape[axis + 1 :])

    def reduced(elements: te.Tensor, combine: Any, name: str) -> te.Tensor:
        inner = te.reduce_axis((0, wide.shape[axis]), name="k")
        return te.compute(rows, lambda *at: combine(elements(*at[:axis], inner, *at[axis:]), axis=inner), name=name)

    largest = reduced(wide, te.max, "largest")

    def power(*at: Any) -> Any:
        return exp_without_overflow(wide(*at) - largest(*at[:axis], *at[axis + 1 :]))

    powers = te.compute(wide.shape, power, name="powers")
    return powers, largest, reduced(powers, te.sum, "total")


def _padded(tensor: te.Tensor) -> te.Tensor:
    *rows, elements = (int(extent) for extent in tensor.shape)
    if padded_elements(elements) == elements:
        return tensor
    filling = tvm.tirx.const(-math.inf, tensor.dtype)

    def copied(*at: Any) -> Any:
        return tvm.tirx.if_then_else(at[-1] < elements, tensor(*at), filling)

    return te.compute((*rows, padded_elements(elements)), copied, name="padded")
