"""Converters of operators over the last two axes of images: pools, resizing and samples."""

import math
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import fx
from torch.nn import functional
from tvm import relax

from tunefarm.frontend.expressions.along_axis import extents, multiplied
from tunefarm.frontend.expressions.windows import Windows, positions_of_maxima
from tunefarm.frontend.pytorch.operators.nodes import HALVES, argument, as_kind, standing_for, value_of

_MAX_POOLS: Final = MappingProxyType({2: (relax.op.nn.max_pool2d, "NCHW"), 3: (relax.op.nn.max_pool3d, "NCDHW")})
_AVERAGE_POOLS: Final = MappingProxyType({2: (relax.op.nn.avg_pool2d, "NCHW"), 3: (relax.op.nn.avg_pool3d, "NCDHW")})
_IMAGE_RANK: Final = 4
_GRID_METHODS: Final = ("bilinear", "nearest", "bicubic")
"""By torch's numbers."""
_GRID_PADDINGS: Final = ("zeros", "border", "reflection")
"""By torch's numbers."""


def max_pool(axes: int) -> Any:
    """Converters of the maxima of windows, and of where they are: TVM's have no default strides, and no positions."""
    pool, layout = _MAX_POOLS[axes]

    def convert(node: fx.Node, importer: Any) -> Any:
        kernel = _of_axes(node.args[1], axes)
        windows = Windows(
            kernel=kernel,
            strides=_of_axes(argument(node, 2, "stride", ()), axes) or kernel,
            padding=_of_axes(argument(node, 3, "padding", 0), axes),
            dilation=_of_axes(argument(node, 4, "dilation", 1), axes),
        )
        emit, data = importer.block_builder.emit, importer.env[node.args[0]]
        options = (kernel, windows.strides, windows.padding, windows.dilation, argument(node, 5, "ceil_mode", False))
        result = _of_batch(lambda images: pool(images, *options, layout=layout), data, axes, emit)
        if not any(user.args[1] == 1 for user in node.users):
            return result, None
        return result, positions_of_maxima(data, extents(result)[-axes:], windows, emit)

    return convert


def adaptive_max_pool(node: fx.Node, importer: Any) -> Any:
    """The maxima of windows that cover an image or a volume evenly."""
    if any(user.args[1] == 1 for user in node.users):
        raise ValueError("the positions of its maxima are used")
    result, emit = importer.env[node.args[0]], importer.block_builder.emit
    counts = [int(count) for count in node.args[1]]
    axes = list(range(result.ty.ndim - len(counts), result.ty.ndim))
    if set(counts) == {1}:
        return emit(relax.op.max(result, axes, keepdims=True)), None
    for axis, count in zip(axes, counts, strict=True):
        extent, places = int(value_of(node.args[0]).shape[axis]), torch.arange(count)
        first, end = places * extent // count, -(-(places + 1) * extent // count)
        widest = torch.arange(int((end - first).max()))
        windows = torch.minimum(first[:, None] + widest, end[:, None] - 1)  # a pixel may be there twice
        result = emit(relax.op.max(emit(relax.op.take(result, relax.const(windows.numpy()), axis=axis)), axis + 1))
    return result, None


def _of_axes(given: Any, axes: int) -> list[int]:
    """An argument for each axis; empty if there is none."""
    values = [int(each) for each in given] if isinstance(given, list | tuple) else [int(given)]
    return values * axes if len(values) == 1 else values


def smoothed(mode: str) -> Any:
    """Converters of resizing with antialiasing, which TVM ignores."""

    def convert(node: fx.Node, importer: Any) -> Any:
        extents, aligned = [int(extent) for extent in value_of(node).shape[2:]], argument(node, 2, "align_corners")
        for axis, extent in enumerate(extents):
            given = int(value_of(node.args[0]).shape[2 + axis])
            if argument(node, 3 + axis, ("scales_h", "scales_w")[axis]) not in (None, extent / given):
                raise ValueError("its scale is not that of the sizes")
        sizes = [{"size": (extent, 2), "antialias": True} for extent in extents]
        return _as_products(node, importer, sizes, mode, aligned)

    return convert


def average_pool(axes: int) -> Any:
    """Converters of the means of windows, or of their sums divided by a number of the model, which TVM ignores."""
    pool, layout = _AVERAGE_POOLS[axes]

    def convert(node: fx.Node, importer: Any) -> Any:
        divisor = argument(node, 6, "divisor_override")
        if divisor is None:
            return getattr(importer, f"_avg_pool{axes}d")(node)  # the converter in TVM's table
        kernel = _of_axes(node.args[1], axes)
        strides = _of_axes(argument(node, 2, "stride", ()), axes) or kernel
        low = _of_axes(argument(node, 3, "padding", 0), axes)
        given_extents, counts = (value_of(each).shape[-axes:] for each in (node.args[0], node))
        # As far as the last window reaches: TVM's means are of fewer elements at the end that ``ceil_mode`` adds.
        high = [
            max((int(count) - 1) * step + size - int(extent) - before, 0)
            for count, step, size, extent, before in zip(counts, strides, kernel, given_extents, low, strict=True)
        ]
        emit, data = importer.block_builder.emit, importer.env[node.args[0]]
        kind, is_float = str(data.ty.dtype), value_of(node).dtype.is_floating_point
        given = data if is_float else as_kind("float64", data, emit)
        means = _of_batch(
            lambda images: pool(images, kernel, strides, [*low, *high], 1, False, True, layout), given, axes, emit
        )
        if is_float:
            return emit(relax.op.multiply(means, relax.const(math.prod(kernel) / divisor, kind)))
        sums = emit(relax.op.round(emit(relax.op.multiply(means, relax.const(math.prod(kernel), "float64")))))
        return as_kind(kind, emit(relax.op.trunc(emit(relax.op.divide(sums, relax.const(divisor, "float64"))))), emit)

    return convert


def _of_batch(pool: Callable[[Any], Any], images: Any, axes: int, emit: Callable[[Any], Any]) -> Any:
    """What ``pool`` makes of a batch of images of ``axes`` axes and channels, or of a single one."""
    if images.ty.ndim == axes + 2:
        return emit(pool(images))
    return emit(relax.op.squeeze(emit(pool(emit(relax.op.expand_dims(images, 0)))), [0]))


def bilinear(node: fx.Node, importer: Any) -> Any:
    """TVM's converter has the quotient of the sizes as the scale; torch has the given one, also for rounded sizes."""
    scales, aligned = argument(node, 3, "scale_factors"), argument(node, 2, "align_corners")
    given = [int(extent) for extent in value_of(node.args[0]).shape[2:]]
    extents = [int(extent) for extent in value_of(node).shape[2:]]
    if (
        aligned
        or scales is None
        or all(scale * old == new for scale, old, new in zip(scales, given, extents, strict=True))
    ):
        return importer._upsample_bilinear2d(node)  # noqa: SLF001
    return _as_products(node, importer, [{"scale_factor": (scale, 1.0)} for scale in scales], "bilinear", aligned)


def _as_products(node: fx.Node, importer: Any, sizes: Sequence[dict[str, Any]], mode: str, aligned: bool) -> Any:
    """An image resized by a product with a matrix along each axis. ``sizes`` are torch's for an image in one column."""
    result = importer.env[node.args[0]]
    for axis, size in enumerate(sizes):
        given = int(value_of(node.args[0]).shape[2 + axis])
        # A channel for each pixel of the axis, in two columns: torch 2.13 is wrong about a single one.
        units = torch.eye(given)[None, :, :, None].repeat(1, 1, 1, 2)
        shares = functional.interpolate(units, mode=mode, align_corners=aligned, **size)[0, :, :, 0]
        result = multiplied(result, shares.T.numpy(), 2 + axis, importer.block_builder.emit)
    return result


def nearest(node: fx.Node, importer: Any) -> Any:
    """TVM's converter chooses other pixels than torch unless each extent grows by a whole factor."""
    height, width = (int(extent) for extent in value_of(node.args[0]).shape[2:])
    rows, columns = (int(extent) for extent in value_of(node).shape[2:])
    if rows % height == 0 and columns % width == 0:
        return importer._upsample_nearest2d(node)  # noqa: SLF001
    result = importer.env[node.args[0]]
    for axis, extent in ((2, (height, 1)), (3, (1, width))):
        numbers = torch.arange(max(extent), dtype=torch.float64).reshape(1, 1, *extent).expand(1, 1, height, width)
        chosen = node.target(numbers, *node.args[1:], **node.kwargs)
        pixels = (chosen[0, 0, :, 0] if axis == 2 else chosen[0, 0, 0]).to(torch.int64)
        result = importer.block_builder.emit(relax.op.take(result, relax.const(pixels.numpy()), axis=axis))
    return result


def regions(node: fx.Node, importer: Any) -> Any:
    """``roi_align``: half a pixel of the feature map; TVM's converter shifts by half a pixel of the image."""
    rois, scale, emit = node.args[1], argument(node, 2, "spatial_scale", 1.0), importer.block_builder.emit
    if not argument(node, 6, "aligned", False) or scale == 1:
        return importer._torchvision_roi_align(node)  # noqa: SLF001 - the converter in TVM's table
    shift = 0.5 - 0.5 / scale
    dtype = value_of(rois).dtype
    shifts = relax.const(torch.tensor([0, shift, shift, shift, shift], dtype=dtype).numpy())
    with standing_for(importer, {rois: emit(relax.op.add(importer.env[rois], shifts))}):
        return importer._torchvision_roi_align(node)  # noqa: SLF001


def sampled_on_grid(node: fx.Node, importer: Any) -> Any:
    """An image, or a volume, at points. TVM has the coordinates as the second axis of the grid, torch as the last one.

    Halves are sampled in float32: TVM's function computes that, and calls it halves.
    """
    kind, emit = str(value_of(node).dtype).removeprefix("torch."), importer.block_builder.emit
    wide = "float32" if value_of(node).dtype in HALVES else kind
    data, grid = (as_kind(wide, importer.env[each], emit) for each in node.args[:2])
    *axes, last = range(1, data.ty.ndim)
    grid = emit(relax.op.permute_dims(grid, [0, last, *axes]))
    method, padding = _GRID_METHODS[node.args[2]], _GRID_PADDINGS[node.args[3]]
    layout = "NCHW" if data.ty.ndim == _IMAGE_RANK else "NCDHW"
    sampled = emit(relax.op.image.grid_sample(data, grid, method, layout, padding, bool(node.args[4])))
    return as_kind(kind, sampled, emit)
