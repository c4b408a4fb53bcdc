"""Zeros around images as the padding of the convolution that reads them, instead of a copy with zeros.

TensorFlow and Keras pad before convolutions with strides, by one row and column after the image only, which the
padding of their convolutions does not say.
"""

from typing import Any

from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.expressions import integers, operator_of, rewritten, value_of
from tunefarm_search.relax.products.convolution_kernels import ATTRIBUTES, OPERATORS, SPATIAL


def with_padding_in_convolutions(module: Any) -> Any:
    """Give convolutions of padded images the images, and padding of their own."""
    return rewritten(module, _OwnPadding(module))


@mutator
class _OwnPadding(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        name = operator_of(visited)
        if name not in SPATIAL:
            return visited
        padded = value_of(visited.args[0], self.lookup_binding)
        zeros = _zeros(padded, str(visited.attrs.data_layout), SPATIAL[name])
        if zeros is None:
            return visited
        attributes = {each: getattr(visited.attrs, each) for each in ATTRIBUTES}
        own = integers(attributes["padding"])
        attributes["padding"] = [more + width for more, width in zip(zeros, own, strict=True)]
        return OPERATORS[name](padded.args[0], visited.args[1], **attributes, out_dtype=str(call.ty.dtype))


def _zeros(padded: Any, layout: str, spatial: str) -> list[int] | None:
    """Rows, columns, ... of zeros before an image and then after it; None if something else is added or removed."""
    if operator_of(padded) != "relax.nn.pad" or str(padded.attrs.pad_mode) != "constant":
        return None
    widths = integers(padded.attrs.pad_width)
    if len(widths) != 2 * len(layout):
        return None  # channels in blocks, such as NCHW16c
    pairs = dict(zip(layout, zip(widths[::2], widths[1::2], strict=True), strict=True))
    others = [pair for letter, pair in pairs.items() if letter not in spatial]
    if float(padded.attrs.pad_value) or min(widths) < 0 or any(map(any, others)):
        return None
    return [pairs[letter][end] for end in (0, 1) for letter in spatial]
