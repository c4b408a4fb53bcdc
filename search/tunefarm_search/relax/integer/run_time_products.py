"""Matrix products of 8-bit activations whose zero point is known only at run time.

Importers of ONNX's ``MatMulInteger`` widen both operands to 32 bits, subtract the zero points and multiply. Those of
torch's dynamic quantization multiply dequantized operands. The products of the activations as they are, less the zero
point times the sum of the weights, give the same integers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tunefarm_search.relax.constants import array_of, is_constant
from tunefarm_search.relax.expressions import Lookup, operator_of
from tunefarm_search.relax.integer.operators import SHIFT, IntegerProducts, Window
from tunefarm_search.relax.integer.packing import packed_weights
from tunefarm_search.relax.quantized_values import INTEGERS, is_static, quantized_constant
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


@dataclass(frozen=True)
class ScaledProducts:
    """A float operator that products of 8-bit integers replace.

    Attributes:
        products: of the integers.
        scale: of the activations, a Relax expression of one float32.
        factors: scales of the output channels, float32.
    """

    products: RunTimeProducts
    scale: Any
    factors: npt.NDArray[Any]


def scaled_products(call: Any, lookup: Lookup, dot_product: DotProduct) -> ScaledProducts | None:
    """The products of an activation, dequantized with a scale of run time, and a dequantized constant."""
    if operator_of(call) != "relax.matmul" or str(call.ty.dtype) != "float32" or not is_static(call):
        return None
    dequantized, weight = lookup(call.args[0]), quantized_constant(call.args[1], lookup)
    if weight is None or weight.integers.ndim != 2 or not is_dequantized_at_run_time(dequantized):
        return None
    data, scale, zero_point = dequantized.args
    scales = weight.scales.astype(np.float64)
    if not is_static(data) or len(data.ty.shape) < 2 or not (scales == scales[:1]).all():
        return None
    products = _products(data, weight.integers, zero_point, dot_product)
    return None if products is None else ScaledProducts(products, scale, scales[0].astype(np.float32))


def is_dequantized_at_run_time(expression: Any) -> bool:
    """Whether an expression dequantizes an activation with one scale and one zero point, which need not be constant."""
    if operator_of(expression) != "relax.dequantize" or str(expression.args[0].ty.dtype) not in INTEGERS:
        return False
    return str(expression.ty.dtype) == "float32" and all(each.ty.ndim == 0 for each in expression.args[1:3])


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
    return _products(data, array, zero_point, dot_product) if array.ndim == 2 and len(data.ty.shape) >= 2 else None


def _products(data: Any, weights: npt.NDArray[Any], zero_point: Any, dot_product: DotProduct) -> RunTimeProducts | None:
    """``weights`` are the integers by input channel, less their zero points; None if they have more than 8 bits."""
    packed = packed_weights(np.transpose(weights))
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
