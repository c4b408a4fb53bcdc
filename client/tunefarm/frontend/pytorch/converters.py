"""Converters of operators that TVM's importer converts wrongly, or not at all."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import fx
from tvm import relax

from tunefarm.frontend.pytorch.collecting import embedding_bag, scatter_add, scatter_reduce
from tunefarm.frontend.pytorch.indexing import index, index_put, select
from tunefarm.frontend.pytorch.nodes import argument, scaled, standing_for, value_of
from tunefarm.frontend.pytorch.norms import batch_norm, group_norm, layer_norm, variance_and_mean
from tunefarm.frontend.pytorch.recurrent import gru, lstm, rnn_relu, rnn_tanh
from tunefarm.frontend.pytorch.spatial import (
    adaptive_max_pool,
    average_pool,
    max_pool,
    nearest,
    sampled_on_grid,
    smoothed,
)

Convert = Callable[[fx.Node, Any], Any]

_HALVES: Final = frozenset({torch.float16, torch.bfloat16})
_CONVOLUTIONS: Final = MappingProxyType(
    {
        1: (relax.op.nn.conv1d, "NCW", "OIW"),
        2: (relax.op.nn.conv2d, "NCHW", "OIHW"),
        3: (relax.op.nn.conv3d, "NCDHW", "OIDHW"),
    }
)
_FULL_RANGES: Final = frozenset({(torch.int8, -128, 127), (torch.uint8, 0, 255)})


def _accumulation(node: fx.Node) -> str | None:
    """The element type of sums of products: torch sums halves in float32."""
    return "float32" if value_of(node).dtype in _HALVES else None


def _product(left: Any, right: Any, node: fx.Node, importer: Any) -> Any:
    return importer.block_builder.emit(relax.op.matmul(left, right, out_dtype=_accumulation(node)))


def _matmul(node: fx.Node, importer: Any) -> Any:
    left, right = (importer.env[each] for each in node.args[:2])
    return _product(left, right, node, importer)


def _add_product(node: fx.Node, importer: Any) -> Any:
    """``beta * added + alpha * (left @ right)``, added before the sum is rounded."""
    added, left, right = (importer.env[each] for each in node.args[:3])
    emit = importer.block_builder.emit
    product = scaled(_product(left, right, node, importer), node.kwargs.get("alpha", 1), emit)
    if node.kwargs.get("beta", 1) == 0:
        return product
    added = scaled(added, node.kwargs.get("beta", 1), emit)
    if _accumulation(node) is not None:
        added = emit(relax.op.astype(added, "float32"))
    return emit(relax.op.add(added, product))


def _convolution(node: fx.Node, importer: Any) -> Any:
    """TVM's converter sums to float32 and then adds the bias, which fails or rounds for other element types."""
    data, weight, bias, strides, padding, dilation, transposed, _, groups = node.args
    dimensions = value_of(node).dim() - 2
    if value_of(node).dtype == torch.float32 or dimensions not in _CONVOLUTIONS:
        return importer._convolution(node)  # noqa: SLF001 - the converter in TVM's table
    emit = importer.block_builder.emit
    if transposed:
        result = _without_bias(node, importer)
    else:
        convolve, data_layout, kernel_layout = _CONVOLUTIONS[dimensions]
        result = emit(
            convolve(
                importer.env[data],
                importer.env[weight],
                strides=strides,
                padding=padding,
                dilation=dilation,
                groups=groups,
                data_layout=data_layout,
                kernel_layout=kernel_layout,
                out_dtype=_accumulation(node),
            )
        )
    if bias is None:
        return result
    added = emit(relax.op.reshape(importer.env[bias], [1, -1, *[1] * dimensions]))
    return emit(relax.op.add(result, emit(relax.op.astype(added, str(result.ty.dtype)))))


def _without_bias(node: fx.Node, importer: Any) -> Any:
    if _accumulation(node) is None:
        raise ValueError("transposed convolutions are converted for float32, float16 and bfloat16 only")
    bias = node.args[2]
    if bias is None:
        return importer._convolution(node)  # noqa: SLF001
    with standing_for(importer, {bias: relax.op.null_value()}):
        return importer._convolution(node)  # noqa: SLF001


def _quantize(node: fx.Node, importer: Any, axis: int, first: int) -> Any:
    low, high, kind = node.args[first : first + 3]
    data = importer.env[node.args[0]]
    scale, zero_point = _scale(node.args[1], importer), _zero_point(node.args[2], importer)
    dtype = str(kind).removeprefix("torch.")
    emit = importer.block_builder.emit
    if (kind, low, high) in _FULL_RANGES:
        return emit(relax.op.quantize(data, scale, zero_point, axis, dtype))
    shape = [1] * data.ty.ndim
    shape[axis] = -1
    shifted = relax.op.add(
        relax.op.round(relax.op.divide(data, relax.op.reshape(scale, shape))),
        relax.op.astype(relax.op.reshape(zero_point, shape), str(data.ty.dtype)),
    )
    return emit(relax.op.astype(relax.op.clip(shifted, low, high), dtype))


def _dequantize(node: fx.Node, importer: Any, axis: int) -> Any:
    scale, zero_point = _scale(node.args[1], importer), _zero_point(node.args[2], importer)
    return importer.block_builder.emit(
        relax.op.dequantize(importer.env[node.args[0]], scale, zero_point, axis, "float32")
    )


def _scale(value: Any, importer: Any) -> Any:
    return _parameter(value, importer, "float32")


def _zero_point(value: Any, importer: Any) -> Any:
    return _parameter(value, importer, "int32")


def _parameter(value: Any, importer: Any, dtype: str) -> Any:
    """A scale or a zero point: a number, or a tensor with one for each channel."""
    if not isinstance(value, fx.Node):
        return relax.const(value, dtype)
    tensor = importer.env[value]
    if str(tensor.ty.dtype) != dtype:
        tensor = importer.block_builder.emit(relax.op.astype(tensor, dtype))
    return tensor


def _reduction(reduce: Callable[..., Any]) -> Convert:
    def convert(node: fx.Node, importer: Any) -> Any:
        axes = argument(node, 1, "dim", ())
        axes = [axes] if isinstance(axes, int) else list(axes)
        keep = argument(node, 2, "keepdim", False)
        return importer.block_builder.emit(reduce(importer.env[node.args[0]], axes or None, keep))

    return convert


def _elu(node: fx.Node, importer: Any) -> Any:
    """``scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))``: also selu and celu, in one form."""
    data = importer.env[node.args[0]]
    alpha, scale, input_scale = (
        argument(node, 1 + n, name, 1) for n, name in enumerate(("alpha", "scale", "input_scale"))
    )
    emit = importer.block_builder.emit
    dtype = str(data.ty.dtype)
    below = emit(relax.op.exp(scaled(emit(relax.op.minimum(data, relax.const(0, dtype))), input_scale, emit)))
    below = scaled(emit(relax.op.subtract(below, relax.const(1, dtype))), alpha, emit)
    return scaled(emit(relax.op.add(emit(relax.op.nn.relu(data)), below)), scale, emit)


def _windows(node: fx.Node, importer: Any) -> Any:
    """``x.unfold(axis, size, step)``: the windows of an axis, whose elements become the last one."""
    data, (axis, size, step) = importer.env[node.args[0]], node.args[1:4]
    rank, emit = data.ty.ndim, importer.block_builder.emit
    axis = axis % rank
    begins = torch.arange(int(value_of(node).shape[axis])) * step
    places = relax.const((begins[:, None] + torch.arange(size)).numpy())
    order = [*(each for each in range(rank + 1) if each != axis + 1), axis + 1]
    return emit(relax.op.permute_dims(emit(relax.op.take(data, places, axis=axis)), order))


def _rounded_quotient(node: fx.Node, importer: Any) -> Any:
    """TVM's converter takes a divisor that is a number as int32, and truncates only quotients of floats."""
    data, divisor, rounding = importer.env[node.args[0]], node.args[1], argument(node, 2, "rounding_mode")
    emit, kind = importer.block_builder.emit, str(data.ty.dtype)
    divisor = importer.env[divisor] if isinstance(divisor, fx.Node) else relax.const(divisor, kind)
    if rounding == "floor":
        return emit(relax.op.floor_divide(data, divisor))
    quotient = emit(relax.op.divide(data, divisor))
    return emit(relax.op.trunc(quotient)) if value_of(node).dtype.is_floating_point else quotient


def _hypotenuse(node: fx.Node, importer: Any) -> Any:
    left, right = (importer.env[each] for each in node.args[:2])
    emit = importer.block_builder.emit
    squares = (emit(relax.op.multiply(each, each)) for each in (left, right))
    return emit(relax.op.sqrt(emit(relax.op.add(*squares))))


def _clamp(node: fx.Node, importer: Any) -> Any:
    """Between two numbers, or above or below one: TVM's has infinity for a missing bound, also among integers."""
    result, emit = importer.env[node.args[0]], importer.block_builder.emit
    low, high = argument(node, 1, "min"), argument(node, 2, "max")
    if low is not None and high is not None:
        return emit(relax.op.clip(result, low, high))
    bound, limit = (high, relax.op.minimum) if low is None else (low, relax.op.maximum)
    return result if bound is None else emit(limit(result, relax.const(bound, str(result.ty.dtype))))


def _power_of_two(node: fx.Node, importer: Any) -> Any:
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    return emit(relax.op.exp(scaled(data, math.log(2), emit)))


def _distances(node: fx.Node, importer: Any) -> Any:
    """``cdist``: the distances of all pairs of rows, by differences."""
    left, right = (importer.env[each] for each in node.args[:2])
    power, emit, rank = float(node.args[2]), importer.block_builder.emit, left.ty.ndim
    kind = str(left.ty.dtype)
    apart = emit(
        relax.op.subtract(emit(relax.op.expand_dims(left, rank - 1)), emit(relax.op.expand_dims(right, rank - 2)))
    )
    if power == 2:
        return emit(relax.op.sqrt(emit(relax.op.sum(emit(relax.op.multiply(apart, apart)), -1))))
    if power == float("inf"):
        return emit(relax.op.max(emit(relax.op.abs(apart)), -1))
    if power == 1:
        return emit(relax.op.sum(emit(relax.op.abs(apart)), -1))
    if power == 0:
        raise ValueError("it counts the elements that differ")
    raised = emit(relax.op.power(emit(relax.op.abs(apart)), relax.const(power, kind)))
    return emit(relax.op.power(emit(relax.op.sum(raised, -1)), relax.const(1 / power, kind)))


def _trilinear(node: fx.Node, importer: Any) -> Any:
    """A product of three tensors with axes of one element put in, summed over axes: ``nn.Bilinear``."""
    emit, product = importer.block_builder.emit, None
    for given, axes in zip(node.args[:3], node.args[3:6], strict=True):
        value = importer.env[given]
        for axis in sorted(axes):
            value = emit(relax.op.expand_dims(value, axis))
        product = value if product is None else emit(relax.op.multiply(product, value))
    return emit(relax.op.sum(product, list(node.args[6])))


def _leaky(node: fx.Node, importer: Any) -> Any:
    """``rrelu`` in evaluation: with the mean of its slopes."""
    slope = (argument(node, 2, "lower", 1 / 8) + argument(node, 3, "upper", 1 / 3)) / 2
    return (importer.block_builder.emit(relax.op.nn.leakyrelu(importer.env[node.args[0]], slope)), None)


def _shift(shifted: Callable[..., Any]) -> Convert:
    def convert(node: fx.Node, importer: Any) -> Any:
        data, amount = importer.env[node.args[0]], node.args[1]
        by = importer.env[amount] if isinstance(amount, fx.Node) else relax.const(int(amount), str(data.ty.dtype))
        return importer.block_builder.emit(shifted(data, by))

    return convert


def _minimum_at(node: fx.Node, importer: Any) -> Any:
    """The minima along an axis, and their positions."""
    data, axis, keep = importer.env[node.args[0]], node.args[1], argument(node, 2, "keepdim", False)
    emit = importer.block_builder.emit
    return emit(relax.op.min(data, axis, keep)), emit(relax.op.argmin(data, axis, keep))


def _maximum_at(node: fx.Node, importer: Any) -> Any:
    """The maxima along an axis, and their positions: TVM's converter sorts for them."""
    data, axis, keep = importer.env[node.args[0]], node.args[1], argument(node, 2, "keepdim", False)
    emit = importer.block_builder.emit
    return emit(relax.op.max(data, axis, keep)), emit(relax.op.argmax(data, axis, keep))


def _unchecked(_node: fx.Node, _importer: Any) -> None:
    """Leaves out a check of values, such as that of ``one_hot`` for its classes: kernels cannot fail."""


CONVERTERS: Final[Mapping[str, Convert]] = MappingProxyType(
    {
        **dict.fromkeys(("mm.default", "bmm.default", "matmul.default"), _matmul),
        **dict.fromkeys(("addmm.default", "baddbmm.default"), _add_product),
        "convolution.default": _convolution,
        "quantize_per_tensor.default": lambda node, importer: _quantize(node, importer, -1, 3),
        "quantize_per_tensor.tensor": lambda node, importer: _quantize(node, importer, -1, 3),
        "quantize_per_channel.default": lambda node, importer: _quantize(node, importer, node.args[3], 4),
        "dequantize_per_tensor.default": lambda node, importer: _dequantize(node, importer, -1),
        "dequantize_per_tensor.tensor": lambda node, importer: _dequantize(node, importer, -1),
        "dequantize_per_channel.default": lambda node, importer: _dequantize(node, importer, node.args[3]),
        **dict.fromkeys(("_assert_async.default", "_assert_async.msg"), _unchecked),
        "avg_pool2d.default": average_pool,
        "max_pool2d_with_indices.default": max_pool,
        "adaptive_max_pool2d.default": adaptive_max_pool,
        "upsample_nearest2d.vec": nearest,
        "_upsample_bilinear2d_aa.default": smoothed("bilinear"),
        "_upsample_bicubic2d_aa.default": smoothed("bicubic"),
        "_native_batch_norm_legit_no_training.default": batch_norm,
        "native_layer_norm.default": layer_norm,
        "var_mean.correction": variance_and_mean,
        "hypot.default": _hypotenuse,
        "exp2.default": _power_of_two,
        "clamp.default": _clamp,
        "_cdist_forward.default": _distances,
        "_trilinear.default": _trilinear,
        "rrelu_with_noise_functional.default": _leaky,
        "__lshift__.Scalar": _shift(relax.op.left_shift),
        "__rshift__.Scalar": _shift(relax.op.right_shift),
        "scatter_add.default": scatter_add,
        "scatter_reduce.two": scatter_reduce,
        **dict.fromkeys(("_embedding_bag_forward_only.default", "_embedding_bag.default"), embedding_bag),
        "unfold.default": _windows,
        "grid_sampler_2d.default": sampled_on_grid,
        **dict.fromkeys(("div.Tensor_mode", "div.Scalar_mode"), _rounded_quotient),
        "elu.default": _elu,
        "native_group_norm.default": group_norm,
        "amax.default": _reduction(relax.op.max),
        "amin.default": _reduction(relax.op.min),
        "prod.dim_int": _reduction(relax.op.prod),
        "max.dim": _maximum_at,
        "min.dim": _minimum_at,
        "index.Tensor": index,
        "index_put.default": index_put,
        "select.int": select,
        "lstm.input": lstm,
        "gru.input": gru,
        "rnn_tanh.input": rnn_tanh,
        "rnn_relu.input": rnn_relu,
    }
)
