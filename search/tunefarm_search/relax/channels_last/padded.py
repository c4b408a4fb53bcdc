"""Convolutions whose channels fill no vectors, such as 53 or 116, with a few channels of zeros more.

Vectors are as long as a divisor of the channels, and 53 has none: such a convolution takes up to twenty times as long.
What follows is computed with the additional channels too, up to an operator that cannot, which gets them cut off. A
convolution that reads them has weights of zero for them.
"""

from typing import Any, Final

import numpy as np
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.channels_last.convolutions import FLOATS
from tunefarm_search.relax.constants import Array, array_of, constant_of, is_constant
from tunefarm_search.relax.expressions import (
    BINARY,
    ELEMENTWISE,
    bound,
    extents_of,
    integers,
    operator_of,
    rewritten,
    value_of,
)
from tunefarm_search.relax.products.convolution_kernels import OPERATORS, SPATIAL
from tunefarm_search.relax.products.winograd.convolution import channels_of_winograd
from tunefarm_search.tvm.target import vector_bytes, vector_unit_bytes

_POOLS: Final = frozenset({"relax.nn.max_pool2d", "relax.nn.avg_pool2d", "relax.nn.adaptive_avg_pool2d"})
_WORTH: Final = 1.5
"""Times as much of the vectors must be used as before: channels that are cut off in the end are copied."""
_UNEVEN: Final = 0.75
"""Part of the speed of whole vectors with others, which LLVM loads in pieces; of processors without longer vectors."""
_SHORT: Final = 8
"""Elements of those, as with AVX2."""


def with_padded_channels(module: Any, target: Target) -> Any:
    """Pad the results of convolutions with constant weights and the channels last, where that fills vectors better."""
    return rewritten(module, _Padding(module, target))


def padded_channels(channels: int, target: Target, element_bytes: int) -> int:
    """As many channels as vectors of ``target`` are filled with; ``channels`` where that would gain little."""
    lanes = max(1, vector_bytes(target) // element_bytes)
    unit = max(1, min(lanes, vector_unit_bytes(target) // element_bytes))
    divisors = [each for each in range(1, lanes + 1) if channels % each == 0]
    uneven = 1.0 if lanes > _SHORT else _UNEVEN
    used = max(_used(each, unit, uneven) for each in divisors)
    padded = -(-channels // unit) * unit
    return padded if channels / padded >= _WORTH * used else channels


def _used(elements: int, unit: int, uneven: float) -> float:
    """The part of vector units that vectors of so many elements use."""
    filled = 1 << (elements - 1).bit_length()
    return elements / max(unit, filled) * (1.0 if elements == filled else uneven)


@mutator
class _Padding(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any, target: Target) -> None:
        super().__init__(module)
        self._target = target
        self._wide: dict[Any, Any] = {}  # variables with more channels, by those that they replace

    def visit_var_binding_(self, binding: Any) -> None:
        wide, shape = self._with_more(binding.value), extents_of(binding.var)
        if wide is None or shape is None:
            super().visit_var_binding_(binding)
            return
        variable = bound(self.builder_, binding.var, wide)
        if extents_of(variable) == shape:
            self.set_var_remap(binding.var, variable)
            return
        self._wide[binding.var] = variable
        narrow = relax.op.strided_slice(variable, [len(shape) - 1], [0], [shape[-1]])
        self.set_var_remap(binding.var, bound(self.builder_, binding.var, narrow, "_channels"))

    def _with_more(self, value: Any) -> Any:
        """The operator with more channels than it has or reads; None for those that are computed as they are."""
        name, shape = operator_of(value), extents_of(value)
        if not shape:
            return None
        if name in SPATIAL:
            return self._convolution(value, SPATIAL[name], shape[-1])
        if name in ELEMENTWISE | BINARY:
            return self._elementwise(value, 2 if name in BINARY else 1, shape[-1])
        return self._pool(value) if name in _POOLS else None

    def _convolution(self, call: Any, spatial: str, channels: int) -> Any:
        weights, attributes = value_of(call.args[1], self.lookup_binding), call.attrs
        layouts = f"N{spatial}C", f"{spatial}IO"
        is_last = (str(attributes.data_layout), str(attributes.kernel_layout)) == layouts
        types = {str(each.ty.dtype) for each in (call, *call.args)}
        if not is_last or not is_constant(weights) or len(types) > 1 or not types <= FLOATS:
            return None
        array, data, groups = array_of(weights), call.args[0], int(attributes.groups)
        given = self._wide.get(data)
        inputs = (extents_of(data) or (0,))[-1]
        wide_inputs = inputs if given is None else int(given.ty.shape[-1])
        if groups == 1:
            outputs = padded_channels(channels, self._target, array.itemsize)
            wide_inputs, outputs = channels_of_winograd(call, wide_inputs, outputs) or (wide_inputs, outputs)
            wide = _padded(array, wide_inputs, outputs)
        elif groups == inputs == channels:
            groups, wide = wide_inputs, _padded(array, 1, wide_inputs)
        else:
            return None
        if wide.shape == array.shape:
            return None
        sizes = [integers(getattr(attributes, each)) for each in ("strides", "padding", "dilation")]
        data = self.visit_expr(data) if given is None else given
        more = wide.shape[-2] - int(data.ty.shape[-1]) if groups == 1 else 0
        if more:
            data = self.builder_.emit(relax.op.nn.pad(data, [0] * (2 * data.ty.ndim - 1) + [more]))
        return OPERATORS[operator_of(call)](data, constant_of(wide), *sizes, groups, *layouts)

    def _elementwise(self, call: Any, count: int, channels: int) -> Any:
        operands, rest = call.args[:count], call.args[count:]
        extents = {int(self._wide[each].ty.shape[-1]) for each in operands if each in self._wide}
        if len(extents) != 1:
            return None
        (more,) = extents
        is_quotient = operator_of(call) == "relax.divide"
        found = [
            self._operand(each, channels, more, is_divisor=is_quotient and number == 1)
            for number, each in enumerate(operands)
        ]
        return None if any(each is None for each in found) else relax.Call(call.op, [*found, *rest], call.attrs)

    def _operand(self, operand: Any, channels: int, more: int, *, is_divisor: bool) -> Any:
        """An operand with more channels; None if there is none. A divisor of 0 would make a number of none."""
        if operand in self._wide:
            return None if is_divisor else self._wide[operand]
        value, shape = value_of(operand, self.lookup_binding), extents_of(operand)
        if shape is None:
            return None
        if not shape or shape[-1] == 1:
            return self.visit_expr(operand)
        if not is_constant(value) or shape[-1] != channels:
            return None
        array = array_of(value)
        widths = [(0, 0)] * (array.ndim - 1) + [(0, more - channels)]
        return constant_of(np.pad(array, widths, constant_values=1 if is_divisor else 0))

    def _pool(self, call: Any) -> Any:
        given = self._wide.get(call.args[0])
        if given is None or str(call.attrs.layout) != "NHWC" or str(call.attrs.out_layout) != "NHWC":
            return None
        return relax.Call(call.op, [given], call.attrs)


def _padded(weights: Array, inputs: int, outputs: int) -> Array:
    """Weights (..., inputs, outputs) with zeros for more of both."""
    missing = [(0, 0)] * (weights.ndim - 2) + [(0, inputs - weights.shape[-2]), (0, outputs - weights.shape[-1])]
    return np.pad(weights, missing)
