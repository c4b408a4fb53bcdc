"""Converters of operators over the last two axes of images: pools, resizing and samples."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.nn import functional
from tvm import relax

from tunefarm.frontend.pytorch.nodes import argument, standing_for, value_of


def max_pool(node: fx.Node, importer: Any) -> Any:
    """The maxima of windows, and where they are. TVM's converter has no default for strides, and no positions."""
    kernel = _pair(node.args[1])
    strides = _pair(argument(node, 2, "stride", ())) or kernel
    padding, dilation = _pair(argument(node, 3, "padding", 0)), _pair(argument(node, 4, "dilation", 1))
    emit, data = importer.block_builder.emit, importer.env[node.args[0]]
    ceiling = argument(node, 5, "ceil_mode", False)
    batched = data if data.ty.ndim == 4 else emit(relax.op.expand_dims(data, 0))
    pooled = emit(relax.op.nn.max_pool2d(batched, kernel, strides, padding, dilation, ceiling, layout="NCHW"))
    result = pooled if data.ty.ndim == 4 else emit(relax.op.squeeze(pooled, [0]))
    if not any(user.args[1] == 1 for user in node.users):
        return result, None
    return result, _positions(node, importer, kernel, strides, padding, dilation)


def _positions(
    node: fx.Node,
    importer: Any,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Any:
    """Where the maxima are in the rows of an image, one after another."""
    height, width = (int(extent) for extent in value_of(node.args[0]).shape[-2:])
    extents = value_of(node)[0].shape[-2:]
    begins = [torch.arange(int(extents[axis])) * strides[axis] - padding[axis] for axis in (0, 1)]
    steps = torch.cartesian_prod(*(torch.arange(kernel[axis]) * dilation[axis] for axis in (0, 1)))
    rows = begins[0][:, None] + steps[:, 0, None, None]
    columns = begins[1] + steps[:, 1, None, None]
    is_inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    places = torch.where(is_inside, rows * width + columns, 0)
    emit, data = importer.block_builder.emit, importer.env[node.args[0]]
    flat = emit(relax.op.reshape(data, [*list(data.ty.shape)[:-2], height * width]))
    axis = data.ty.ndim - 2
    read = emit(relax.op.take(flat, relax.const(places.numpy()), axis=axis))
    lowest = relax.const(torch.finfo(value_of(node.args[0]).dtype).min, str(data.ty.dtype))
    chosen = emit(relax.op.argmax(emit(relax.op.where(relax.const(is_inside.numpy()), read, lowest)), axis))
    within, first = steps[:, 0] * width + steps[:, 1], begins[0][:, None] * width + begins[1]
    return emit(relax.op.add(emit(relax.op.take(relax.const(within.numpy()), chosen, 0)), relax.const(first.numpy())))


def adaptive_max_pool(node: fx.Node, importer: Any) -> Any:
    """The maxima of windows that cover an image evenly."""
    if any(user.args[1] == 1 for user in node.users):
        raise ValueError("the positions of its maxima are used")
    result, emit = importer.env[node.args[0]], importer.block_builder.emit
    rank = result.ty.ndim
    for axis, count in zip((rank - 2, rank - 1), node.args[1], strict=True):
        extent, places = int(value_of(node.args[0]).shape[axis]), torch.arange(count)
        first, end = places * extent // count, -(-(places + 1) * extent // count)
        widest = torch.arange(int((end - first).max()))
        windows = torch.minimum(first[:, None] + widest, end[:, None] - 1)  # a pixel may be there twice
        result = emit(relax.op.max(emit(relax.op.take(result, relax.const(windows.numpy()), axis=axis)), axis + 1))
    return result, None


def _pair(given: Any) -> list[int]:
    """An argument for both axes; empty if there is none."""
    values = [int(each) for each in given] if isinstance(given, list | tuple) else [int(given)]
    return values * 2 if len(values) == 1 else values


def smoothed(mode: str) -> Any:
    """Converters of resizing with antialiasing, which TVM ignores: a product with a matrix along each axis."""

    def convert(node: fx.Node, importer: Any) -> Any:
        extents, aligned = [int(extent) for extent in value_of(node).shape[2:]], argument(node, 2, "align_corners")
        result, emit = importer.env[node.args[0]], importer.block_builder.emit
        dtype = str(result.ty.dtype)
        for axis, extent in enumerate(extents):
            given = int(value_of(node.args[0]).shape[2 + axis])
            if argument(node, 3 + axis, ("scales_h", "scales_w")[axis]) not in (None, extent / given):
                raise ValueError("its scale is not that of the sizes")
            # A channel for each pixel of the axis, in two columns: torch 2.13 is wrong about a single one.
            units = torch.eye(given)[None, :, :, None].repeat(1, 1, 1, 2)
            size, options = (extent, 2), {"mode": mode, "align_corners": aligned, "antialias": True}
            shares = functional.interpolate(units, size, **options)[0, :, :, 0]
            matrix = relax.const((shares if axis else shares.T).contiguous().numpy(), dtype)
            factors = (result, matrix) if axis else (matrix, result)
            result = emit(relax.op.matmul(*factors))
        return result

    return convert


def average_pool(node: fx.Node, importer: Any) -> Any:
    """The means of windows, or their sums divided by a number of the model."""
    divisor = argument(node, 6, "divisor_override")
    if divisor is None:
        return importer._avg_pool2d(node)  # noqa: SLF001 - the converter in TVM's table
    kernel = _pair(node.args[1])
    strides, padding = _pair(argument(node, 2, "stride", ())) or kernel, _pair(argument(node, 3, "padding", 0))
    emit, data = importer.block_builder.emit, importer.env[node.args[0]]
    ceiling = argument(node, 4, "ceil_mode", False)
    means = emit(relax.op.nn.avg_pool2d(data, kernel, strides, padding, 1, ceiling, True, "NCHW"))
    return emit(relax.op.multiply(means, relax.const(kernel[0] * kernel[1] / divisor, str(data.ty.dtype))))


def nearest(node: fx.Node, importer: Any) -> Any:
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


def sampled_on_grid(node: fx.Node, importer: Any) -> Any:
    """TVM has the coordinates of a point as the second axis of the grid, torch as the last one."""
    grid = relax.op.permute_dims(importer.env[node.args[1]], [0, 3, 1, 2])
    with standing_for(importer, {node.args[1]: importer.block_builder.emit(grid)}):
        return importer._grid_sampler_2d(node)  # noqa: SLF001 - the converter in TVM's table
