"""Converters of operators that TVM's importer converts wrongly, or not at all."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import fx
from tvm import relax

from tunefarm.frontend.pytorch.indexing import argument, index, index_put, select, standing_for, value_of
from tunefarm.frontend.pytorch.recurrent import gru, lstm, rnn_relu, rnn_tanh

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
    product = _scaled(_product(left, right, node, importer), node.kwargs.get("alpha", 1), emit)
    if node.kwargs.get("beta", 1) == 0:
        return product
    added = _scaled(added, node.kwargs.get("beta", 1), emit)
    if _accumulation(node) is not None:
        added = emit(relax.op.astype(added, "float32"))
    return emit(relax.op.add(added, product))


def _scaled(value: Any, factor: Any, emit: Callable[[Any], Any]) -> Any:
    return value if factor == 1 else emit(relax.op.multiply(value, relax.const(factor, str(value.ty.dtype))))


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
    below = emit(relax.op.exp(_scaled(emit(relax.op.minimum(data, relax.const(0, dtype))), input_scale, emit)))
    below = _scaled(emit(relax.op.subtract(below, relax.const(1, dtype))), alpha, emit)
    return _scaled(emit(relax.op.add(emit(relax.op.nn.relu(data)), below)), scale, emit)


def _group_norm(node: fx.Node, importer: Any) -> Any:
    """The norm without its statistics; TVM's converter requires a weight and a bias."""
    data, groups, epsilon = importer.env[node.args[0]], node.args[6], node.args[7]
    emit = importer.block_builder.emit
    channels, kind = [int(value_of(node.args[0]).shape[1])], str(data.ty.dtype)
    given = (None if each is None else importer.env[each] for each in node.args[1:3])
    weight, bias = (
        emit(relax.op.full(channels, relax.const(value, kind), kind)) if each is None else each
        for each, value in zip(given, (1, 0), strict=True)
    )
    axes = list(range(2, data.ty.ndim))
    return (emit(relax.op.nn.group_norm(data, weight, bias, groups, 1, axes, epsilon)),)


def _average_pool(node: fx.Node, importer: Any) -> Any:
    if argument(node, 6, "divisor_override") is not None:
        raise ValueError("it has a divisor of its own")
    return importer._avg_pool2d(node)  # noqa: SLF001 - the converter in TVM's table


def _nearest(node: fx.Node, importer: Any) -> Any:
    """TVM's converter chooses other pixels than torch unless each extent grows by a whole factor."""
    height, width = (int(extent) for extent in value_of(node.args[0]).shape[2:])
    rows, columns = (int(extent) for extent in value_of(node).shape[2:])
    if rows % height == 0 and columns % width == 0:
        return importer._upsample_nearest2d(node)  # noqa: SLF001
    result = importer.env[node.args[0]]
    for axis, extents in ((2, (height, 1)), (3, (1, width))):
        numbers = torch.arange(max(extents), dtype=torch.float64).reshape(1, 1, *extents).expand(1, 1, height, width)
        chosen = node.target(numbers, *node.args[1:], **node.kwargs)
        pixels = (chosen[0, 0, :, 0] if axis == 2 else chosen[0, 0, 0]).to(torch.int64)
        result = importer.block_builder.emit(relax.op.take(result, relax.const(pixels.numpy()), axis=axis))
    return result


def _sampled_on_grid(node: fx.Node, importer: Any) -> Any:
    """TVM has the coordinates of a point as the second axis of the grid, torch as the last one."""
    grid = relax.op.permute_dims(importer.env[node.args[1]], [0, 3, 1, 2])
    with standing_for(importer, {node.args[1]: importer.block_builder.emit(grid)}):
        return importer._grid_sampler_2d(node)  # noqa: SLF001 - the converter in TVM's table


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


def _scatter_add(node: fx.Node, importer: Any) -> Any:
    data, index_of, values = (importer.env[each] for each in (node.args[0], node.args[2], node.args[3]))
    return importer.block_builder.emit(relax.op.scatter_elements(data, index_of, values, node.args[1], "add"))


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
        "avg_pool2d.default": _average_pool,
        "upsample_nearest2d.vec": _nearest,
        "scatter_add.default": _scatter_add,
        "unfold.default": _windows,
        "grid_sampler_2d.default": _sampled_on_grid,
        **dict.fromkeys(("div.Tensor_mode", "div.Scalar_mode"), _rounded_quotient),
        "elu.default": _elu,
        "native_group_norm.default": _group_norm,
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
