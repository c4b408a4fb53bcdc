"""Convolutions of floats with constant weights, with the channels last.

A vector then holds results of one pixel: it reads weights in a row, and wastes no lanes at the edges of small images.
Weights are transposed when the model is prepared, inputs and outputs of the model where they enter and leave it.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.channels_last.operators import (
    channels_first_axes,
    channels_last_axes,
    channels_last_call,
    channels_last_of,
    pieces_with_channels_last,
)
from tunefarm_search.relax.channels_last.transposed import phases_of, transposed_convolution
from tunefarm_search.relax.constants import Array, array_of, constant_of, is_constant
from tunefarm_search.relax.expressions import integers, operator_of, rewritten, value_of
from tunefarm_search.relax.operators.grid_sampling import can_sample_with_channels_last, sampled_with_channels_last
from tunefarm_search.relax.products.convolution_kernels import OPERATORS, SPATIAL

_TRANSPOSED: Final = {f"{name}_transpose": spatial for name, spatial in SPATIAL.items()}
_TRANSPOSITION: Final = "relax.permute_dims"
FLOATS: Final = frozenset({"float16", "float32"})


def with_channels_last(module: Any) -> Any:
    """Compute convolutions with constant weights, and what stands between them, with the channels last."""
    # Operators that read the same tensor transpose it in the same way.
    return relax.transform.EliminateCommonSubexpr()(rewritten(module, _ChannelsLast(module)))


def _every(strides: Sequence[int], data: Any) -> Any:
    """The pixels of images, with the channels first, in places that are multiples of ``strides``."""
    axes, pixels = range(2, 2 + len(strides)), integers(data.ty.shape)[2:]
    return relax.op.strided_slice(data, [*axes], [0] * len(strides), pixels, strides)


@mutator
class _ChannelsLast(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._moved: set[Any] = set()  # results with the channels last, whose transpositions are ours

    def visit_call_(self, call: Any) -> Any:
        """Replace a convolution, or an operator whose operands have the channels last."""
        visited = self.visit_expr_post_order(call)
        for rewrite in (self._convolution, self._transposed_convolution, self._sampling):
            found = rewrite(visited)
            if found is not None:
                return self._channels_first(found)
        moved = channels_last_call(visited, self._value, self.builder_)
        if operator_of(moved) == _TRANSPOSITION:
            self._moved.add(moved.args[0])
        return visited if moved is None else moved

    def _value(self, expression: Any) -> Any:
        """The value of a variable, unless the model transposes it: then a sum of tokens would move, too."""
        value = value_of(expression, self.lookup_binding)
        is_given = operator_of(value) == _TRANSPOSITION and value.args[0] not in self._moved
        return None if is_given else value

    def _convolution(self, call: Any) -> Any:
        """The convolution with channels last; None for other expressions."""
        name = operator_of(call)
        spatial = SPATIAL.get(name)
        weights = None if spatial is None else self._weights(call, f"NC{spatial}", f"OI{spatial}")
        if weights is None or self._is_lone(call, weights):
            return None
        # From OIHW to HWIO.
        packed = constant_of(np.transpose(weights, [*range(2, weights.ndim), 1, 0]))
        strides, padding, dilation = (
            integers(getattr(call.attrs, each)) for each in ("strides", "padding", "dilation")
        )
        data = call.args[0]
        skips = set(weights.shape[2:]) == {1} and max(strides) > 1 and not any(padding)
        if skips and channels_last_of(data, self._value) is None:
            # Only the pixels that it reads are transposed.
            data, strides = self.builder_.emit(_every(strides, data)), [1] * len(strides)
        sizes = (strides, padding, dilation, int(call.attrs.groups))
        layouts = {"data_layout": f"N{spatial}C", "kernel_layout": f"{spatial}IO"}
        dtype = str(call.ty.dtype)  # halves may be summed in float32
        return OPERATORS[name](self._channels_last(data), packed, *sizes, **layouts, out_dtype=dtype)

    def _is_lone(self, call: Any, weights: Array) -> bool:
        """Whether it is a depthwise convolution of an input with the channels first.

        Rows of pixels fill vectors as channels do, so that it takes as long in either layout, and needs no
        transposition before it. Its result is transposed if a convolution reads it.
        """
        is_depthwise = int(call.attrs.groups) == weights.shape[0] and weights.shape[1] == 1
        return is_depthwise and channels_last_of(call.args[0], self._value) is None

    def _transposed_convolution(self, call: Any) -> Any:
        """The transposed convolution with channels last; None for other expressions."""
        spatial = _TRANSPOSED.get(operator_of(call))
        weights = None if spatial is None else self._weights(call, f"NC{spatial}", f"IO{spatial}")
        phases = None if weights is None else phases_of(call)
        if weights is None or phases is None:
            return None
        return transposed_convolution(call, phases, self._channels_last(call.args[0]), weights, self.builder_)

    def _sampling(self, call: Any) -> Any:
        """Images sampled with channels last; None for other expressions."""
        if not can_sample_with_channels_last(call):
            return None
        return sampled_with_channels_last(call, self._channels_last(call.args[0]), self.builder_)

    def _weights(self, call: Any, layout: str, kernel_layout: str) -> Array | None:
        """The constant weights of a convolution of floats in these layouts; None for others."""
        weights, attributes = self._value(call.args[1]), call.attrs
        layouts = (str(attributes.data_layout), str(attributes.out_layout), str(attributes.kernel_layout))
        if layouts != (layout, layout, kernel_layout) or not is_constant(weights):
            return None
        data, array = call.args[0].ty, array_of(weights)
        is_fixed = all(hasattr(extent, "value") for extent in data.shape)
        return array if is_fixed and str(data.dtype) == str(array.dtype) in FLOATS else None

    def _channels_last(self, data: Any) -> Any:
        moved = channels_last_of(data, self._value)
        if moved is None:
            moved = pieces_with_channels_last(data, self._value, self.builder_)
        if moved is not None:
            return moved
        return self.builder_.emit(relax.op.permute_dims(data, channels_last_axes(len(data.ty.shape))))

    def _channels_first(self, result: Any) -> Any:
        emitted = self.builder_.emit(result)
        self._moved.add(emitted)
        return relax.op.permute_dims(emitted, channels_first_axes(len(emitted.ty.shape)))
