"""Convolutions whose kernels are known while a model is prepared, so that they can be arranged anew."""

from typing import Any, Final

from tunefarm_search.relax.constants import is_constant
from tunefarm_search.relax.expressions import extents_of, operator_of

CONVOLUTION: Final = "relax.nn.conv2d"
SPATIAL: Final = {"relax.nn.conv1d": "W", CONVOLUTION: "HW", "relax.nn.conv3d": "DHW"}
"""Letters of the axes of pixels in layouts."""


def kernels_of(call: Any) -> tuple[int, int, int, int] | None:
    """The extents (rows, columns, inputs, outputs) of the kernels of a Relax expression.

    None if it is not a convolution with constant kernels, one group, a dilation of 1, the layouts NHWC and HWIO, and
    elements of float32.
    """
    if operator_of(call) != CONVOLUTION or not is_constant(call.args[1]):
        return None
    attributes, kernels = call.attrs, extents_of(call.args[1])
    layouts = (str(attributes.data_layout), str(attributes.out_layout), str(attributes.kernel_layout))
    steps = {int(each) for each in (*attributes.dilation, attributes.groups)}
    is_float = {str(each.ty.dtype) for each in (call, *call.args[:2])} == {"float32"}
    if kernels is None or extents_of(call) is None or not is_float:
        return None
    if layouts != ("NHWC", "NHWC", "HWIO") or steps != {1}:
        return None
    rows, columns, inputs, outputs = kernels
    return rows, columns, inputs, outputs
