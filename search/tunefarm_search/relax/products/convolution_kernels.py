"""Convolutions whose kernels are known while a model is prepared, so that they can be arranged anew."""

from typing import Any, Final

from tvm import relax

from tunefarm_search.relax.constants import is_constant
from tunefarm_search.relax.expressions import extents_of, operator_of

CONVOLUTION: Final = "relax.nn.conv2d"
OF_LINES: Final = "relax.nn.conv1d"
PLANE: Final = (OF_LINES, CONVOLUTION)
"""Of images, or of lines, which are images of one row."""
SPATIAL: Final = {OF_LINES: "W", CONVOLUTION: "HW", "relax.nn.conv3d": "DHW"}
"""Letters of the axes of pixels in layouts."""
OPERATORS: Final = {
    OF_LINES: relax.op.nn.conv1d,
    CONVOLUTION: relax.op.nn.conv2d,
    "relax.nn.conv3d": relax.op.nn.conv3d,
}
ATTRIBUTES: Final = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_layout")
"""Of each operator, but for the type of its result."""


def has_known_kernels(call: Any) -> bool:
    """Whether a Relax expression is a convolution of float32 with constant kernels and the channels last."""
    spatial = SPATIAL.get(operator_of(call))
    if spatial is None or not is_constant(call.args[1]) or None in map(extents_of, (call, call.args[1])):
        return False
    attributes = call.attrs
    layouts = (str(attributes.data_layout), str(attributes.out_layout), str(attributes.kernel_layout))
    is_float = {str(each.ty.dtype) for each in (call, *call.args[:2])} == {"float32"}
    return is_float and layouts == (f"N{spatial}C", f"N{spatial}C", f"{spatial}IO")


def kernels_of(call: Any) -> tuple[int, int, int, int] | None:
    """The extents (rows, columns, inputs, outputs) of the kernels of a Relax expression, with one row for ``conv1d``.

    None if it is not a convolution of an image or a line with constant kernels, one group, a dilation of 1, the
    channels last, and elements of float32.
    """
    kernels = extents_of(call.args[1]) if operator_of(call) in PLANE and has_known_kernels(call) else None
    if kernels is None or {int(each) for each in (*call.attrs.dilation, call.attrs.groups)} != {1}:
        return None
    rows, columns, inputs, outputs = (1, *kernels)[-4:]
    return rows, columns, inputs, outputs
