"""The three functions of a convolution by Winograd's algorithm, as tensor expressions.

The products of all tiles are one product of matrices for each place of a tile, with the tiles as rows. Tensors between
the functions have the place first: its row times the columns of a tile, and its column.
"""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import te

from tunefarm_search.relax.products.padded_rows import row_to_read
from tunefarm_search.relax.products.winograd.convolution import WinogradConvolution
from tunefarm_search.relax.products.winograd.matrices import Rows
from tunefarm_search.validation.permitted_nodes import TRANSFORM


def transformed_inputs(convolution: WinogradConvolution, padded: int, data: te.Tensor) -> te.Tensor:
    """Inputs of shape (images, rows, columns, channels) as (places, ``padded`` tiles of all images, channels)."""
    matrix, size = convolution.winograd.of_inputs, convolution.winograd.inputs
    step, (down, across), (top, left) = convolution.winograd.results, convolution.tiles, convolution.padding
    images, high, wide, channels = (int(extent) for extent in data.shape)
    zero = tvm.tirx.const(0, data.dtype)

    def element(batch: Any, row: Any, column: Any, channel: Any) -> Any:
        inside = tvm.tirx.all(row >= top, row < high + top, column >= left, column < wide + left)
        return tvm.tirx.if_then_else(inside, data[batch, row - top, column - left, channel], zero)

    extents = [tiles * step + size - step for tiles in convolution.tiles]
    inputs = te.compute((images, *extents, channels), element, name="padded_inputs")

    def rows(tile: Any, place: Any, column: Any, channel: Any) -> Any:
        tile = row_to_read(tile, convolution.count, padded)
        image, row, first = tile // (down * across), tile // across % down * step, tile % across * step
        if images == 1:
            # TVM keeps a remainder that changes nothing, and the transform takes up to 5 times as long.
            image, row = 0, tile // across * step
        return _chosen(place, matrix, [inputs[image, row + at, first + column, channel] for at in range(size)])

    by_rows = te.compute((padded, size, size, channels), rows, name="transformed_rows")

    def columns(place: Any, tile: Any, channel: Any) -> Any:
        return _chosen(place % size, matrix, [by_rows[tile, place // size, at, channel] for at in range(size)])

    attributes = {TRANSFORM: size}
    return te.compute((size * size, padded, channels), columns, name="transformed_inputs", attrs=attributes)


def products_of_places(inputs: te.Tensor, kernels: te.Tensor) -> te.Tensor:
    """The sums over channels, of shape (places, tiles, blocks of channels, channels).

    ``kernels`` have the shape (places, blocks of channels, input channels, channels).
    """
    places, blocks, channels, lanes = kernels.shape
    channel = te.reduce_axis((0, channels), name="k")

    def sums(place: Any, tile: Any, block: Any, lane: Any) -> Any:
        return te.sum(inputs[place, tile, channel] * kernels[place, block, channel, lane], axis=channel)

    return te.compute((places, inputs.shape[1], blocks, lanes), sums, name="products")


def transformed_results(convolution: WinogradConvolution, products: te.Tensor) -> te.Tensor:
    """The results of all tiles, of shape (images, rows, columns, blocks of channels, channels)."""
    matrix, size = convolution.winograd.of_results, convolution.winograd.inputs
    step, (down, across) = convolution.winograd.results, convolution.tiles
    *_, blocks, lanes = products.shape

    def rows(tile: Any, row: Any, column: Any, block: Any, lane: Any) -> Any:
        return _chosen(row, matrix, [products[at * size + column, tile, block, lane] for at in range(size)])

    shape = (convolution.count, step, size, blocks, lanes)
    by_rows = te.compute(shape, rows, name="transformed_rows", attrs={TRANSFORM: step})

    def results(image: Any, row: Any, column: Any, block: Any, lane: Any) -> Any:
        tile = (image * down + row // step) * across + column // step
        return _chosen(column % step, matrix, [by_rows[tile, row % step, at, block, lane] for at in range(size)])

    shape = (convolution.images, *convolution.results, blocks, lanes)
    return te.compute(shape, results, name="transformed_results")


def _chosen(row: Any, matrix: Rows, elements: Sequence[Any]) -> Any:
    """The product of one row of the matrix with the elements. Unrolled loops leave the choice of the row out."""
    *others, chosen = (_sum(factors, elements) for factors in matrix)
    for number, each in reversed(list(enumerate(others))):
        chosen = tvm.tirx.Select(row == number, each, chosen)
    return chosen


def _sum(factors: Sequence[float], elements: Sequence[Any]) -> Any:
    """The sum of multiples of the elements."""
    terms = ((factor, element) for factor, element in zip(factors, elements, strict=False) if factor)
    (factor, element), *others = sorted(terms, key=lambda each: -each[0])
    total = _multiple(factor, element)
    for factor, element in others:
        total = total + _multiple(factor, element) if factor > 0 else total - _multiple(-factor, element)
    return total


def _multiple(factor: float, element: Any) -> Any:
    return element if factor == 1 else element * tvm.tirx.const(factor, element.dtype)
