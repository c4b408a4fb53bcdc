"""Folding of batch norms with constant statistics into the weights of the convolution before them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.constants import array_of, constant_of, is_constant
from tunefarm_search.relax.expressions import operator_of, uses_of

_OUTPUT_AXIS_FIRST = {"relax.nn.conv1d": "OIW", "relax.nn.conv2d": "OIHW", "relax.nn.conv3d": "OIDHW"}
_CHANNEL_AXIS = 1


def fold_batch_norms(module: Any) -> Any:
    """Replace batch norms whose statistics are constants.

    After a convolution with constant weights that nothing else reads, with or without a bias, the norm becomes part of
    the weights and the bias. Elsewhere it becomes one product and one sum; TVM's decomposition has four operators.
    """
    folded = tvm.IRModule(module.functions, attrs=module.attrs)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            folded.update_func(variable, _NormFolding(folded, function).visit_expr(function))
    return folded


@mutator
class _NormFolding(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any, function: Any) -> None:
        super().__init__(module)
        self._values = relax.analysis.get_var2val(function)
        self._uses = uses_of(function)

    def visit_tuple_getitem_(self, item: Any) -> Any:
        """Replace the normalised output of a batch norm; its other outputs, the statistics, stay what they are."""
        norm = self._value(item.tuple_value)
        if int(item.index) != 0 or operator_of(norm) != "relax.nn.batch_norm" or not _is_foldable(norm):
            return self.visit_expr_post_order(item)
        scale, shift = _scale_and_shift(norm)
        folded = None
        if int(norm.attrs.axis) == _CHANNEL_AXIS:
            folded = self._into_convolution(norm.args[0], scale, shift, str(norm.args[0].ty.dtype))
        return folded if folded is not None else self._product_and_sum(norm, scale, shift)

    def _value(self, expression: Any) -> Any:
        if isinstance(expression, relax.Var) and expression in self._values:
            return self._values[expression]
        return expression

    def _into_convolution(self, given: Any, scale: Any, shift: Any, dtype: str) -> Any:
        """The convolution with other weights, plus a bias; None if ``given`` is not such a convolution."""
        result, channels = self._read_once(given), scale.size
        if operator_of(result) == "relax.add":
            bias = next((each for each in result.args if is_constant(each)), None)
            inner = next((each for each in result.args if not is_constant(each)), None)
            if bias is None or inner is None:
                return None
            extents = [1 if axis != _CHANNEL_AXIS else channels for axis in range(len(given.ty.shape))]
            values = array_of(bias)
            if values.ndim not in {len(extents), len(extents) - 1} or list(values.shape) != extents[-values.ndim :]:
                return None
            shift, result = shift + values.reshape(-1).astype("float64") * scale, self._read_once(inner)
        if not _is_convolution(result):
            return None
        weight = array_of(result.args[1])
        scaled = weight.astype("float64") * scale.reshape(-1, *([1] * (weight.ndim - 1)))
        arguments = [self.visit_expr(result.args[0]), constant_of(scaled, str(weight.dtype))]
        convolution = self.builder_.emit(relax.Call(result.op, arguments, result.attrs))
        return relax.op.add(convolution, _per_channel(shift, weight.ndim, dtype))

    def _read_once(self, expression: Any) -> Any:
        """The value of a variable that is read once; None for others."""
        if isinstance(expression, relax.Var) and self._uses.get(expression, 0) == 1:
            return self._value(expression)
        return None

    def _product_and_sum(self, norm: Any, scale: Any, shift: Any) -> Any:
        data, dtype = self.visit_expr(norm.args[0]), str(norm.args[0].ty.dtype)
        rank, axis = len(norm.args[0].ty.shape), int(norm.attrs.axis)
        product = self.builder_.emit(relax.op.multiply(data, _per_channel(scale, rank, dtype, axis)))
        return relax.op.add(product, _per_channel(shift, rank, dtype, axis))


def _is_foldable(norm: Any) -> bool:
    """Whether the statistics of a batch norm are constants.

    Its attribute ``training``, which is true unless a frontend sets it, has no effect: models are compiled to infer.
    """
    return all(is_constant(each) for each in norm.args[1:5])


def _is_convolution(expression: Any) -> bool:
    layout = _OUTPUT_AXIS_FIRST.get(operator_of(expression))
    if layout is None or not is_constant(expression.args[1]):
        return False
    attributes = expression.attrs
    channel_first = str(attributes.data_layout).startswith("NC") and str(attributes.out_layout).startswith("NC")
    return channel_first and str(attributes.kernel_layout) == layout


def _scale_and_shift(norm: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """What a norm multiplies a channel with and then adds, in double precision."""
    weight, bias, mean, variance = (array_of(each).astype("float64") for each in norm.args[1:5])
    factor = 1 / np.sqrt(variance + float(norm.attrs.epsilon))
    scale = factor * weight if bool(norm.attrs.scale) else factor
    shift = -mean * scale
    return scale, shift + bias if bool(norm.attrs.center) else shift


def _per_channel(values: Any, rank: int, dtype: str, axis: int = _CHANNEL_AXIS) -> Any:
    extents = [values.size if each == axis % rank else 1 for each in range(rank)]
    return constant_of(values.reshape(extents), dtype)
