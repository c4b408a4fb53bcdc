"""Convolutions with kernels of 1 x 1: products of pixels with a matrix, which is packed into tiles of columns."""

from dataclasses import dataclass
from typing import Any

from tvm import te

from tunefarm_search.relax.constants import array_of, constant_of
from tunefarm_search.relax.expressions import extents_of
from tunefarm_search.relax.products.convolution_kernels import kernels_of


@dataclass(frozen=True)
class PointwiseConvolution:
    """A convolution of shape (images, rows, columns, inputs) to (images, *results, outputs).

    Attributes:
        matrix: the kernels, as a Relax constant of shape (inputs, outputs).
        results: images, and rows and columns of the results.
        strides: rows and columns from one pixel that is read to the next.
    """

    matrix: Any
    results: tuple[int, int, int]
    strides: tuple[int, int]


def pointwise_convolution(call: Any) -> PointwiseConvolution | None:
    """How to compute a Relax expression as a product; None if it is no convolution of 1 x 1 without padding.

    None for a single pixel, too, as of squeeze and excitation: what reads it has other tiles, and would read a view.
    See ``kernels_of`` for what else it must be.
    """
    kernels, shape = kernels_of(call), extents_of(call)
    if kernels is None or shape is None or kernels[:2] != (1, 1) or any(int(each) for each in call.attrs.padding):
        return None
    images, rows, columns, _ = shape
    if images * rows * columns == 1:
        return None
    down, across = (int(each) for each in call.attrs.strides)
    matrix = constant_of(array_of(call.args[1]).reshape(kernels[2:]))
    return PointwiseConvolution(matrix, (images, rows, columns), (down, across))


def pointwise_sums(convolution: PointwiseConvolution, data: te.Tensor, tiles: te.Tensor) -> te.Tensor:
    """The results, of shape (images, rows, columns, tiles, columns of a tile); ``tiles`` are packed columns."""
    count, inputs, columns = tiles.shape
    down, across = convolution.strides
    channel = te.reduce_axis((0, inputs), name="k")

    def sums(image: Any, row: Any, column: Any, tile: Any, lane: Any) -> Any:
        pixel = data[image, row * down, column * across, channel]
        return te.sum(pixel * tiles[tile, channel, lane], axis=channel)

    return te.compute((*convolution.results, count, columns), sums, name="conv2d")
