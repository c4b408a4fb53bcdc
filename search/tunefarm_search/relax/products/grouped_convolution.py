"""Grouped convolutions with the groups as an axis of their own.

Otherwise output ``o`` reads the inputs from ``o // outputs * inputs`` on. Neither the analytical cost nor TVM sees that
these are the same for all outputs of a group, and kernels get vectors of a few of them.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from tvm import te, topi

from tunefarm_search.relax.constants import Array
from tunefarm_search.relax.expressions import extents_of, integers
from tunefarm_search.relax.products.convolution_kernels import has_known_kernels

_MIN_OUTPUTS: Final = 8
"""Outputs of a group that fill a vector."""


@dataclass(frozen=True)
class GroupedConvolution:
    """A convolution of shape (images, *pixels, inputs of all groups) to (*results, groups, outputs).

    Attributes:
        groups: their number.
        results: images and pixels of the results.
        strides: pixels from one window to the next, of each axis.
        padding: pixels of zeros before the first one of each axis, and behind the last one.
        dilation: pixels from one element of a window to the next, of each axis.
    """

    groups: int
    results: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def packed_kernels(self, kernels: Array) -> Array:
        """Kernels (*window, inputs, outputs of all groups) as (groups, *window, inputs, outputs)."""
        split = kernels.reshape(*kernels.shape[:-1], self.groups, -1)
        return np.ascontiguousarray(np.moveaxis(split, -2, 0))


def grouped_convolution(call: Any) -> GroupedConvolution | None:
    """How to compute a Relax expression in groups.

    None if it is not a convolution with constant kernels, several groups of enough outputs, the channels last, and
    elements of float32.
    """
    shape = extents_of(call) if has_known_kernels(call) else None
    if shape is None or math.prod(shape[:-1]) == 1:
        return None
    attributes, groups = call.attrs, int(call.attrs.groups)
    if groups == 1 or shape[-1] // groups % _MIN_OUTPUTS:
        return None
    sizes = [tuple(integers(each)) for each in (attributes.strides, attributes.padding, attributes.dilation)]
    return GroupedConvolution(groups, shape[:-1], *sizes)


def sums_of_groups(convolution: GroupedConvolution, data: te.Tensor, kernels: te.Tensor) -> te.Tensor:
    """The results, of shape (*results, groups, outputs), of ``packed_kernels``."""
    groups, *window, inputs, outputs = kernels.shape
    rank, padding = len(window), convolution.padding
    if any(padding):
        data = topi.nn.pad(data, (0, *padding[:rank], 0), (0, *padding[rank:], 0), name="pad_temp")
    axes = [te.reduce_axis((0, extent), name="k") for extent in (*window, inputs)]

    def sums(*place: Any) -> Any:
        image, *pixels, group, output = place
        steps = zip(pixels, convolution.strides, axes, convolution.dilation, strict=False)
        read = [pixel * stride + element * dilation for pixel, stride, element, dilation in steps]
        element = data[(image, *read, group * inputs + axes[-1])]
        return te.sum(element * kernels[(group, *axes, output)], axis=axes)

    return te.compute((*convolution.results, groups, outputs), sums, name="conv")
