"""Matrix products of 8-bit activations whose zero point is known only at run time, as ONNX's ``MatMulInteger``.

Importers widen both operands to 32 bits, subtract the zero points and multiply. The products of the activations as they
are, less the zero point times the sum of the weights, give the same integers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tunefarm_search.relax.constants import array_of, is_constant
from tunefarm_search.relax.expressions import Lookup, operator_of
from tunefarm_search.relax.integer.operators import SHIFT, IntegerProducts, Window
from tunefarm_search.relax.integer.packing import packed_weights
from tunefarm_search.relax.quantized_values import INTEGERS, is_static
from tunefarm_search.tvm.tensor_intrinsics.dot_products import DotProduct


@dataclass(frozen=True)
class RunTimeProducts:
    """A product of wide integers that products of 8-bit ones replace.

    Attributes:
        data: the 8-bit activations, a Relax expression.
        products: what is computed of them.
        zero_point: what stands for zero, a Relax expression; None for the number zero.
        shift: what is added to the activations before they are multiplied.
        totals: the sum of the weights of each output channel, int32.
    """

    data: Any
    products: IntegerProducts
    zero_point: Any
    shift: int
    totals: npt.NDArray[Any]


def run_time_products(call: Any, lookup: Lookup, dot_product: DotProduct) -> RunTimeProducts | None:
    """The products that a call computes; None if it is another operator or its operands have another form."""
    if not is_wide_product(call) or not is_static(call):
        return None
    weights, wide, zero_point = lookup(call.args[1]), lookup(call.args[0]), None
    if operator_of(wide) == "relax.subtract":
        wide, zero_point = lookup(wide.args[0]), wide.args[1]
    if operator_of(wide) != "relax.astype" or str(wide.args[0].ty.dtype) not in INTEGERS:
        return None
    data = wide.args[0]
    if not is_constant(weights) or not is_static(data) or not _is_of_rows(zero_point, data):
        return None
    array = array_of(weights)
    packed = packed_weights(np.transpose(array)) if array.ndim == 2 and len(data.ty.shape) >= 2 else None
    if packed is None:
        return None
    shift = SHIFT[str(data.ty.dtype), dot_product.activation]
    products = IntegerProducts(packed, Window(), dot_product.activation, shift, channels_first=False)
    return RunTimeProducts(data, products, zero_point, shift, packed.totals.astype(np.int32))


def is_wide_product(expression: Any) -> bool:
    """Whether an expression multiplies matrices of 32-bit integers."""
    return operator_of(expression) == "relax.matmul" and str(expression.ty.dtype) == "int32"


def _is_of_rows(zero_point: Any, data: Any) -> bool:
    """Whether there is one zero point, one for each row, or none."""
    if zero_point is None:
        return True
    if not is_static(zero_point) or len(zero_point.ty.shape) > len(data.ty.shape):
        return False
    shape = [int(extent) for extent in zero_point.ty.shape]
    return not shape or shape[-1] == 1
