"""Products of matrices, convolutions and distances, in the element type in which torch sums."""

from types import MappingProxyType
from typing import Any, Final

import torch
from torch import fx
from tvm import relax

from tunefarm.frontend.expressions.along_axis import extents
from tunefarm.frontend.expressions.deformable import MovedWindows, deformable_convolution
from tunefarm.frontend.pytorch.operators.nodes import HALVES, argument, scaled, standing_for, value_of

_CONVOLUTIONS: Final = MappingProxyType(
    {
        1: (relax.op.nn.conv1d, "NCW", "OIW"),
        2: (relax.op.nn.conv2d, "NCHW", "OIHW"),
        3: (relax.op.nn.conv3d, "NCDHW", "OIDHW"),
    }
)
_MATRIX, _MATRICES = 2, 3
_COPIES: Final = 3
"""Times as much as a product reads of a matrix, copying it first takes."""
_VOLUME: Final = 3
_TRANSPOSED_VOLUME: Final = (relax.op.nn.conv3d_transpose, "NCDHW", "IODHW")
"""TVM's importer has no converter for it."""


def _accumulation(node: fx.Node) -> str | None:
    """The element type of sums of products: torch sums halves in float32."""
    return "float32" if value_of(node).dtype in HALVES else None


def _product(left: Any, right: Any, node: fx.Node, importer: Any) -> Any:
    return importer.block_builder.emit(relax.op.matmul(left, right, out_dtype=_accumulation(node)))


def matrix_product(node: fx.Node, importer: Any) -> Any:
    """``left @ right``."""
    left, right = (importer.env[each] for each in node.args[:2])
    return _product(left, right, node, importer)


def wide_product(node: fx.Node, importer: Any) -> Any:
    """``left @ right`` of 8-bit integers in int32, in the form in which ONNX's importer multiplies them."""
    emit = importer.block_builder.emit
    left, right = (emit(relax.op.astype(importer.env[each], "int32")) for each in node.args[:2])
    return emit(relax.op.matmul(left, right))


def grouped_product(node: fx.Node, importer: Any) -> Any:
    """Each row times the matrix of its group, as experts have one; the third argument gives where groups end.

    Rows behind the last group become zeros.
    """
    rows, matrices = (value_of(each) for each in node.args[:2])
    if rows.dim() != _MATRIX or matrices.dim() != _MATRICES or argument(node, 3, "bias") is not None:
        raise ValueError("its rows are not in groups, or it has a bias")
    emit, ends = importer.block_builder.emit, importer.env[argument(node, 2, "offs")]
    count, groups = int(rows.shape[0]), int(matrices.shape[0])
    places = relax.const(torch.arange(count).numpy(), str(ends.ty.dtype))
    begun = emit(relax.op.less_equal(emit(relax.op.expand_dims(ends, 1)), places))  # (groups, count)
    group = emit(relax.op.sum(emit(relax.op.astype(begun, "int32")), 0))
    return (_by_copies if _COPIES * count <= groups else _by_all)(node, importer, group, groups)


def _by_copies(node: fx.Node, importer: Any, group: Any, groups: int) -> Any:
    """Rows times copies of their matrices, for fewer rows than groups: the matrices of others are not read."""
    emit, left, right = importer.block_builder.emit, *(importer.env[each] for each in node.args[:2])
    own = emit(relax.op.take(right, emit(relax.op.minimum(group, relax.const(groups - 1, "int32"))), axis=0))
    products = _product(emit(relax.op.expand_dims(left, 1)), own, node, importer)  # (count, 1, columns)
    is_in = emit(relax.op.expand_dims(emit(relax.op.less(group, relax.const(groups, "int32"))), 1))
    return _chosen(is_in, emit(relax.op.squeeze(products, 1)), emit)


def _by_all(node: fx.Node, importer: Any, group: Any, groups: int) -> Any:
    """Rows times all matrices, of which each takes its own product."""
    emit = importer.block_builder.emit
    products = matrix_product(node, importer)  # (groups, count, columns)
    numbers = relax.const(torch.arange(groups, dtype=torch.int32)[:, None].numpy())
    is_own = emit(relax.op.expand_dims(emit(relax.op.equal(numbers, group)), 2))
    return emit(relax.op.sum(_chosen(is_own, products, emit), 0))


def _chosen(condition: Any, value: Any, emit: Any) -> Any:
    return emit(relax.op.where(condition, value, relax.const(0, str(value.ty.dtype))))


def added_product(node: fx.Node, importer: Any) -> Any:
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


def deformable(node: fx.Node, importer: Any) -> Any:
    """``deform_conv2d`` of torchvision."""
    strides, pads, dilations = (list(node.args[first : first + 2]) for first in (5, 7, 9))
    groups, parts, is_masked = node.args[11:14]
    x, weight, offset, mask, bias = (importer.env[each] for each in node.args[:5])
    windows = MovedWindows(extents(weight)[2:], strides, pads, dilations, parts)
    tensors = (x, weight, offset, bias, mask if is_masked else None)
    return deformable_convolution(tensors, windows, groups, importer.block_builder)


def convolution(node: fx.Node, importer: Any) -> Any:
    """TVM's converter sums to float32 and then adds the bias, which fails or rounds for other element types."""
    data, weight, bias, strides, padding, dilation, transposed, output_padding, groups = node.args
    dimensions = value_of(node).dim() - 2
    is_transposed_volume = transposed and dimensions == _VOLUME
    if (value_of(node).dtype == torch.float32 and not is_transposed_volume) or dimensions not in _CONVOLUTIONS:
        return importer._convolution(node)  # noqa: SLF001 - the converter in TVM's table
    emit = importer.block_builder.emit
    if transposed and not is_transposed_volume:
        result = _without_bias(node, importer)
    else:
        convolve, data_layout, kernel_layout = _TRANSPOSED_VOLUME if transposed else _CONVOLUTIONS[dimensions]
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
                **({"output_padding": output_padding} if transposed else {}),
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


def trilinear_product(node: fx.Node, importer: Any) -> Any:
    """A product of three tensors with axes of one element put in, summed over axes: ``nn.Bilinear``."""
    emit, product = importer.block_builder.emit, None
    for given, axes in zip(node.args[:3], node.args[3:6], strict=True):
        value = importer.env[given]
        for axis in sorted(axes):
            value = emit(relax.op.expand_dims(value, axis))
        product = value if product is None else emit(relax.op.multiply(product, value))
    return emit(relax.op.sum(product, list(node.args[6])))


def distances(node: fx.Node, importer: Any) -> Any:
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
