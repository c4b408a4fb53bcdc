"""Dilated convolutions as plain ones, so that Winograd's algorithm computes them where it is faster.

With a dilation of d, a result depends only on inputs whose rows and columns equal its own modulo d. Each of these d * d
parts of an image is an image of its own, with a plain convolution.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import tvm
from tvm import relax, te
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.expressions import bound, extents_of, integers, operator_of, rewritten
from tunefarm_search.relax.products.convolution_kernels import CONVOLUTION, has_known_kernels
from tunefarm_search.relax.products.winograd.convolution import winograd_convolution


def with_plain_convolutions(module: Any) -> Any:
    """Replace dilated convolutions by plain ones of parts of their images, where these use Winograd's algorithm.

    Variables keep their names.
    """
    return rewritten(module, _Parting(module))


@mutator
class _Parting(PyExprMutator):  # type: ignore[misc]
    def visit_var_binding_(self, binding: Any) -> None:
        plain = _plain(binding.value)
        if plain is None:
            super().visit_var_binding_(binding)
            return
        dilation = int(binding.value.attrs.dilation[0])
        images, *extents, _ = extents_of(binding.var) or ()
        data = self.visit_expr(binding.value.args[0])
        given = self.builder_.call_te(partial(_parts, dilation), data, primfunc_name_hint="parts_of_images")
        parts = self.builder_.emit(given)
        results = self.builder_.emit(relax.Call(plain.op, [parts, plain.args[1]], plain.attrs))
        joined = partial(_whole, dilation, images, extents)
        whole = self.builder_.call_te(joined, results, primfunc_name_hint="images_of_parts")
        self.set_var_remap(binding.var, bound(self.builder_, binding.var, whole))


def _plain(call: Any) -> Any:
    """The convolution of the parts, of a variable without a value; None if ``call`` stays as it is."""
    data, shape = _dilated(call)
    if data is None:
        return None
    attributes = call.attrs
    dilation = int(attributes.dilation[0])
    parts = _extents_of_parts(shape, dilation)
    padding = [each // dilation for each in integers(attributes.padding)]
    given = relax.Var("parts", relax.TensorType(parts, str(data.ty.dtype)))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    plain = relax.BlockBuilder().normalize(relax.op.nn.conv2d(given, call.args[1], padding=padding, **layouts))
    return None if winograd_convolution(plain) is None else plain


def _dilated(call: Any) -> tuple[Any, tuple[int, ...]]:
    """The inputs and their extents, of a convolution that can be computed in parts; None of anything else."""
    if operator_of(call) != CONVOLUTION or not has_known_kernels(call):
        return None, ()
    attributes, shape = call.attrs, extents_of(call.args[0])
    dilation, *others = {int(each) for each in attributes.dilation}
    is_even = not any(int(each) % dilation for each in attributes.padding)
    if others or dilation == 1 or not is_even or int(attributes.groups) != 1:
        return None, ()
    return (call.args[0], shape) if shape and {int(each) for each in attributes.strides} == {1} else (None, ())


def _parts(dilation: int, data: te.Tensor) -> te.Tensor:
    """Images of shape (images, rows, columns, channels) as ``dilation`` squared times as many smaller ones."""
    _, high, wide, _ = shape = tuple(int(extent) for extent in data.shape)
    zero = tvm.tirx.const(0, data.dtype)

    def element(part: Any, row: Any, column: Any, channel: Any) -> Any:
        row, column = row * dilation + part // dilation % dilation, column * dilation + part % dilation
        inside = tvm.tirx.all(row < high, column < wide)
        return tvm.tirx.if_then_else(inside, data[part // dilation**2, row, column, channel], zero)

    return te.compute(_extents_of_parts(shape, dilation), element, name="parts_of_images")


def _extents_of_parts(shape: Sequence[int], dilation: int) -> tuple[int, ...]:
    images, high, wide, channels = shape
    return images * dilation**2, -(-high // dilation), -(-wide // dilation), channels


def _whole(dilation: int, images: int, extents: list[int], parts: te.Tensor) -> te.Tensor:
    """The images of shape (images, *extents, channels) that consist of the parts."""

    def element(image: Any, row: Any, column: Any, channel: Any) -> Any:
        part = (image * dilation + row % dilation) * dilation + column % dilation
        return parts[part, row // dilation, column // dilation, channel]

    return te.compute((images, *extents, parts.shape[3]), element, name="images_of_parts")
