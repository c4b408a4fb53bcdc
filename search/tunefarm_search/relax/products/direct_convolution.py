"""Convolutions as sums over windows, with kernels that are packed into tiles of columns."""

from dataclasses import dataclass
from typing import Any, Final

from tvm import te, topi

from tunefarm_search.relax.constants import array_of, constant_of
from tunefarm_search.relax.expressions import extents_of
from tunefarm_search.relax.products.convolution_kernels import kernels_of

_MIN_OUTPUTS: Final = 256
"""Of larger kernels than 1 x 1. Kernels of fewer outputs, of which four share a page, lost up to a tenth by packing."""


@dataclass(frozen=True)
class DirectConvolution:
    """A convolution of shape (images, rows, columns, inputs) to (images, *results, outputs).

    Attributes:
        matrix: the kernels, as a Relax constant of shape (elements of a window, outputs).
        window: rows and columns of a kernel.
        results: images, and rows and columns of the results.
        strides: rows and columns from one window to the next.
        padding: rows and columns of zeros before the first pixel, and behind the last one.
    """

    matrix: Any
    window: tuple[int, int]
    results: tuple[int, int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]

    def packed_kernels(self, tiles: Any) -> Any:
        """The packed columns of ``matrix`` with the rows and columns of a window as axes, unless it is one of 1 x 1."""
        extents = tuple(extent for extent in self.window if extent > 1)
        if not extents:
            return tiles
        array = array_of(tiles)
        return constant_of(array.reshape(array.shape[0], *extents, -1, array.shape[2]))


def direct_convolution(call: Any) -> DirectConvolution | None:
    """How to compute a Relax expression as sums over windows; None if its kernels are better left as they are.

    That are padded kernels of 1 x 1, larger ones of few outputs, and those of a single result, as of squeeze and
    excitation: what reads it has other tiles, and would read a view. See ``kernels_of`` for what else it must be.
    """
    kernels, shape = kernels_of(call), extents_of(call)
    if kernels is None or shape is None:
        return None
    top, left, bottom, right = (int(each) for each in call.attrs.padding)
    height, width, _, outputs = kernels
    is_padded = any((top, left, bottom, right))
    is_worth = not is_padded if (height, width) == (1, 1) else outputs >= _MIN_OUTPUTS
    images, rows, columns, _ = shape
    if not is_worth or images * rows * columns == 1:
        return None
    down, across = (int(each) for each in call.attrs.strides)
    matrix = constant_of(array_of(call.args[1]).reshape(-1, outputs))
    results, padding = (images, rows, columns), (top, left, bottom, right)
    return DirectConvolution(matrix, (height, width), results, (down, across), padding)


def sums_over_windows(convolution: DirectConvolution, data: te.Tensor, kernels: te.Tensor) -> te.Tensor:
    """The results, of shape (images, rows, columns, tiles, columns of a tile), of ``packed_kernels``."""
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

    return te.compute((*convolution.results, count, lanes), sums, name="conv2d")
