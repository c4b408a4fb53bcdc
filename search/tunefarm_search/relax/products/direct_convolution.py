"""Convolutions as sums over windows, with kernels that are packed into tiles of columns."""

import math
from dataclasses import dataclass
from typing import Any, Final

from tvm import te, topi

from tunefarm_search.relax.constants import array_of, constant_of
from tunefarm_search.relax.expressions import extents_of, integers
from tunefarm_search.relax.products.convolution_kernels import kernels_of
from tunefarm_search.relax.products.padded_rows import row_to_read

_MIN_OUTPUTS: Final = 256
"""Of larger kernels than 1 x 1. Kernels of fewer outputs, of which four share a page, lost up to a tenth by packing."""

_MIN_ELEMENTS: Final = 64
"""Of a window. Sums of 10 elements took 1.2 times as long with packed kernels: a tile is written after each of them."""


@dataclass(frozen=True)
class DirectConvolution:
    """A convolution of images, or of lines, which are images of one row.

    Attributes:
        data: images, and rows, columns and channels of the inputs.
        matrix: the kernels, as a Relax constant of shape (elements of a window, outputs).
        window: rows and columns of a kernel.
        results: images, and rows and columns of the results.
        strides: rows and columns from one window to the next.
        padding: rows and columns of zeros before the first pixel, and behind the last one.
    """

    data: tuple[int, int, int, int]
    matrix: Any
    window: tuple[int, int]
    results: tuple[int, int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]

    @property
    def pixels(self) -> int:
        """Of the results of all images."""
        return math.prod(self.results)

    @property
    def is_product(self) -> bool:
        """Whether each pixel of the data is one row of a product of matrices."""
        return self.window == self.strides == (1, 1)

    def packed_kernels(self, tiles: Any) -> Any:
        """The packed columns of ``matrix`` with the rows and columns of a window as axes, unless it is one of 1 x 1."""
        extents = tuple(extent for extent in self.window if extent > 1)
        if not extents:
            return tiles
        array = array_of(tiles)
        return constant_of(array.reshape(array.shape[0], *extents, -1, array.shape[2]))


def direct_convolution(call: Any) -> DirectConvolution | None:
    """How to compute a Relax expression as sums over windows; None if its kernels are better left as they are.

    That are padded kernels of 1 x 1, larger ones of few outputs or elements, and those of a single result, as of
    squeeze and excitation: what reads it has other tiles, and would read a view. It must be what ``kernels_of`` says.
    """
    kernels, given, shape = kernels_of(call), extents_of(call.args[0]), extents_of(call)
    if kernels is None or given is None or shape is None:
        return None
    padding, strides = integers(call.attrs.padding), integers(call.attrs.strides)
    if len(shape) == 3:
        padding, strides = [0, padding[0], 0, padding[1]], [1, *strides]
        given, shape = ((images, 1, *others) for images, *others in (given, shape))
    height, width, inputs, outputs = kernels
    is_large = outputs >= _MIN_OUTPUTS and height * width * inputs >= _MIN_ELEMENTS
    is_worth = not any(padding) if (height, width) == (1, 1) else is_large
    if not is_worth or math.prod(shape[:-1]) == 1:
        return None
    matrix = constant_of(array_of(call.args[1]).reshape(-1, outputs))
    results, places = (shape[0], shape[1], shape[2]), (padding[0], padding[1], padding[2], padding[3])
    data = (given[0], given[1], given[2], inputs)
    return DirectConvolution(data, matrix, (height, width), results, (strides[0], strides[1]), places)


def sums_over_windows(convolution: DirectConvolution, padded: int, data: te.Tensor, kernels: te.Tensor) -> te.Tensor:
    """The results of ``packed_kernels``, with tiles and columns of a tile as the last axes.

    The first axes are images, rows and columns; or one axis of all pixels, if they are those of one row, or more
    ``padded`` sums are computed.
    """
    pixels = convolution.pixels
    count, *window, lanes = kernels.shape
    down, across = convolution.strides
    top, left, bottom, right = convolution.padding
    if any(convolution.padding):
        data = topi.nn.pad(data, (0, top, left, 0), (0, bottom, right, 0), name="pad_temp")
    axes = [te.reduce_axis((0, extent), name="k") for extent in window]
    places = iter(axes)
    y, x = (next(places) if extent > 1 else 0 for extent in convolution.window)

    def sums(image: Any, row: Any, column: Any, tile: Any, lane: Any) -> Any:
        element = data[image, row * down + y, column * across + x, axes[-1]]
        return te.sum(element * kernels[(tile, *axes, lane)], axis=axes)

    def sums_of_pixel(pixel: Any, tile: Any, lane: Any) -> Any:
        return sums(*_place(row_to_read(pixel, pixels, padded), convolution.results), tile, lane)

    if padded == pixels and convolution.results[1] > 1:
        return te.compute((*convolution.results, count, lanes), sums, name="conv2d")
    all_sums = te.compute((padded, count, lanes), sums_of_pixel, name="conv2d")
    return all_sums if padded == pixels else te.compute((pixels, count, lanes), all_sums, name="results")


def _place(pixel: Any, extents: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    """Image, row and column of a pixel, without the remainders that TVM keeps though they change nothing."""
    images, rows, columns = extents
    image, inside = (0, pixel) if images == 1 else (pixel // (rows * columns), pixel % (rows * columns))
    return (image, 0, inside) if rows == 1 else (image, inside // columns, inside % columns)
