"""Convolutions and matrix products of dequantized values, as products of integers."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tunefarm_search.relax.channels_last.operators import channels_last_of
from tunefarm_search.relax.expressions import Lookup, operator_of
from tunefarm_search.relax.integer.operators import SHIFT, IntegerProducts, Window
from tunefarm_search.relax.integer.packing import packed_weights
from tunefarm_search.relax.quantized_values import (
    QuantizedConstant,
    is_static,
    quantized_constant,
    quantized_tensor,
)
from tunefarm_search.tvm.tensor_intrinsics.dot_products import DotProduct

_RANKS: Final = {"relax.nn.conv1d": 1, "relax.nn.conv2d": 2}


@dataclass(frozen=True)
class FoundProducts:
    """A float operator that products of integers replace.

    Attributes:
        data: the 8-bit activations, a Relax expression.
        products: what is computed of them.
        offsets: what is added to the sum of each output channel, int32.
        factors: what a sum with its offset is multiplied by, float32, one for each output channel.
        is_channels_first: whether the float operator gives the channels before the dimensions of the window.
    """

    data: Any
    products: IntegerProducts
    offsets: npt.NDArray[Any]
    factors: npt.NDArray[Any]
    is_channels_first: bool


def found_products(call: Any, lookup: Lookup, dot_product: DotProduct) -> FoundProducts | None:
    """The products that a call computes; None if it is another operator or its operands are not quantized."""
    name = operator_of(call)
    if name not in _RANKS and name != "relax.matmul":
        return None
    if str(call.ty.dtype) != "float32" or not is_static(call) or not is_static(call.args[0]):
        return None
    weight = quantized_constant(call.args[1], lookup)
    if weight is None:
        return None
    if name == "relax.matmul":
        return _matrix_product(call, weight, lookup, dot_product)
    return _convolution(call, weight, lookup, dot_product)


def _convolution(call: Any, weight: QuantizedConstant, lookup: Lookup, dot_product: DotProduct) -> FoundProducts | None:
    attributes, rank = call.attrs, _RANKS[operator_of(call)]
    layout, kernel_layout = str(attributes.data_layout), str(attributes.kernel_layout)
    if int(attributes.groups) != 1 or len(layout) != rank + 2 or str(attributes.out_layout or layout) != layout:
        return None
    spatial = "".join(each for each in layout if each not in "NC")
    if layout not in {f"NC{spatial}", f"N{spatial}C"}:
        return None
    axes = [kernel_layout.index(each) for each in f"O{spatial}I"]
    sides = [int(each) for each in attributes.padding]
    window = Window(
        tuple(int(each) for each in attributes.strides),
        tuple(zip(sides[:rank], sides[rank:], strict=True)),
        tuple(int(each) for each in attributes.dilation),
    )
    return _products(call, weight, axes, window, lookup, dot_product, channels_first=layout.startswith("NC"))


def _matrix_product(
    call: Any, weight: QuantizedConstant, lookup: Lookup, dot_product: DotProduct
) -> FoundProducts | None:
    if weight.integers.ndim != 2 or len(call.args[0].ty.shape) < 2:
        return None
    return _products(call, weight, [1, 0], Window(), lookup, dot_product, channels_first=False)


def _products(
    call: Any,
    weight: QuantizedConstant,
    axes: list[int],
    window: Window,
    lookup: Lookup,
    dot_product: DotProduct,
    *,
    channels_first: bool,
) -> FoundProducts | None:
    """``axes`` bring a weight into the order of output channels, window, input channels."""
    data, data_first = quantized_tensor(call.args[0], lookup), channels_first
    if data is None and channels_first:
        moved = channels_last_of(call.args[0], lookup)
        data, data_first = None if moved is None else quantized_tensor(moved, lookup), False
    scales = np.transpose(weight.scales, axes).reshape(weight.integers.shape[axes[0]], -1).astype(np.float64)
    packed = packed_weights(np.transpose(weight.integers, axes))
    if data is None or packed is None or not (scales == scales[:, :1]).all():
        return None
    zero_point = data.zero_point + SHIFT[str(data.integers.ty.dtype), dot_product.activation]
    products = IntegerProducts(packed, window, dot_product.activation, zero_point, data_first)
    offsets = (-zero_point * packed.totals).astype(np.int32)
    factors = (scales[:, 0] * data.scale).astype(np.float32)
    return FoundProducts(data.integers, products, offsets, factors, channels_first)
