"""Products with constant matrices in fewer bits than their elements, which become floats in registers.

A product of one row takes as long as its matrix takes from memory: with 8 bits instead of 32 it is up to four times as
fast, with halves twice. With more rows, an element is converted once for all rows of a tile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from tvm import te, tirx

from tunefarm_search.relax.constants import Array
from tunefarm_search.relax.products.packed_columns import fills_tiles, in_tiles, without_tiles
from tunefarm_search.relax.products.padded_rows import row_to_read
from tunefarm_search.relax.quantized_values import QuantizedConstant

COLUMNS: Final = 16
"""Of a tile: a cache line of sums."""
_MIN_GROUP: Final = 16
"""Rows of the matrix that share scales. With fewer, scales are as much to read as integers."""
_MAX_ROWS_OF_4_BITS: Final = 16
"""With more rows, a product takes longer to take bytes apart than it saves by reading fewer."""
_MAX_ROWS_OF_HALVES: Final = 32
"""With more rows, floats are faster. Those of 8 bits are as fast as floats with any number of rows."""
_MAX_ROWS_OF_STEPS: Final = 2
"""With more rows, it pays to have the numbers themselves, and not a sum of several codes to scale at once."""
_MIDDLE: Final = 8
"""Of 4-bit integers without a sign."""
_MAX_CODE: Final = {4: 15, 8: 255}
_Term = Callable[[Sequence[Any], Any, Any], Any]
"""Of the indices of a row, a tile and a column of it."""


@dataclass(frozen=True)
class NarrowWeights:
    """A constant matrix of shape (k, n). An element is its code less a zero point, times a scale.

    Attributes:
        codes: [k, n]; 8-bit integers, those of 4 bits from 0 to 15, or halves.
        bits: of a code: 4, 8 or 16.
        scales: float32, [groups, n]; None for halves. Groups are of successive rows.
        zero_points: float32, [groups, n], or one number for all.
    """

    codes: Array
    bits: int
    scales: Array | None = None
    zero_points: Array | int = 0

    @property
    def constants(self) -> tuple[Array, ...]:
        """What ``product_of_codes`` reads: codes in tiles of columns, scales, and zero points if they are an array.

        Codes have the shape (tiles, groups, steps, columns), others (tiles, groups, columns). A step is one code, or
        two of 4 bits, the first in the lower half of a byte.
        """
        codes = self.codes[0::2] | self.codes[1::2] << 4 if self.bits == 4 else self.codes
        groups = 1 if self.scales is None else len(self.scales)
        numbers = [each for each in (self.scales, self.zero_points) if isinstance(each, np.ndarray)]
        return tuple(in_tiles(each, COLUMNS) for each in (codes.reshape(groups, -1, codes.shape[1]), *numbers))


def narrow_weights(constant: QuantizedConstant | Array, rows: int) -> NarrowWeights | None:
    """Quantized weights, or halves, in the form that is fastest for a product of so many ``rows``.

    None if that is floats: many rows of halves, scales for few elements each, too few columns, integers that 8 bits do
    not hold, or no matrix.
    """
    elements = constant.integers if isinstance(constant, QuantizedConstant) else constant
    if elements.ndim != 2 or not fills_tiles(elements.shape[1], COLUMNS):
        return None
    if isinstance(constant, QuantizedConstant):
        return _quantized(constant, rows)
    return NarrowWeights(elements, 16) if rows <= _MAX_ROWS_OF_HALVES else None


def _quantized(constant: QuantizedConstant, rows: int) -> NarrowWeights | None:
    integers, scales = constant.integers, constant.scales
    changes = np.flatnonzero((scales[1:] != scales[:-1]).any(axis=1)) + 1
    group = int(np.gcd.reduce([len(integers), *changes]))
    if group < _MIN_GROUP:
        return None
    of_groups = scales[::group].astype(np.float32)
    grouped = integers.reshape(-1, group, integers.shape[1])
    low, high = grouped.min(axis=1), grouped.max(axis=1)
    span = int((high - low).max())
    packs = span <= _MAX_CODE[4] and rows <= _MAX_ROWS_OF_4_BITS and group % 2 == 0
    if packs and low.min() >= -_MIDDLE and high.max() < _MIDDLE:
        return NarrowWeights((integers + _MIDDLE).astype(np.uint8), 4, of_groups, _MIDDLE)
    if not packs and low.min() >= -128 and high.max() <= 127:
        return NarrowWeights(integers.astype(np.int8), 8, of_groups)
    if span > _MAX_CODE[8]:
        return None
    codes = (grouped - low[:, None]).reshape(integers.shape).astype(np.uint8)
    return NarrowWeights(codes, 4 if packs else 8, of_groups, -low.astype(np.float32))


def product_of_codes(padded: int, weights: NarrowWeights, left: te.Tensor, *constants: te.Tensor) -> te.Tensor:
    """The product of ``left`` and ``weights``, whose ``constants`` are given: the columns are two axes, as in tiles.

    Computes the sums of so many ``padded`` rows.
    """
    outer, tiles = [int(extent) for extent in left.shape[:-1]], (int(constants[0].shape[0]), COLUMNS)
    rows = outer[-1] if outer else 1
    terms = _Terms(weights, left, *constants)
    axes, term = terms.of_steps() if np.prod(outer) <= _MAX_ROWS_OF_STEPS else terms.of_numbers()

    def sums(*indices: Any) -> Any:
        *first, tile, column = indices
        at = [*first[:-1], *(row_to_read(row, rows, padded) for row in first[-1:])]
        return te.sum(term(at, tile, column), axis=list(axes))

    computed = outer if padded == rows else [*outer[:-1], padded]
    found = te.compute((*computed, *tiles), sums, name="matmul")
    if terms.scales is not None and not terms.has_groups:
        scales = terms.scales
        return te.compute((*outer, *tiles), lambda *at: found(*at) * scales(at[-2], 0, at[-1]), name="product")
    return found if padded == rows else te.compute((*outer, *tiles), found, name="product")


def whole_product_of_codes(
    padded: int, weights: NarrowWeights, result: Sequence[int], left: te.Tensor, *constants: te.Tensor
) -> te.Tensor:
    """The same in the shape ``result``."""
    return without_tiles(product_of_codes(padded, weights, left, *constants), result)


@dataclass(frozen=True)
class _Terms:
    """What the sums of a product are of. Scales that a whole column shares are left to what follows the sums."""

    weights: NarrowWeights
    left: te.Tensor
    codes: te.Tensor
    scales: te.Tensor | None = None
    zero_points: te.Tensor | None = None

    @property
    def has_groups(self) -> bool:
        return int(self.codes.shape[1]) > 1

    @property
    def _has_zero(self) -> bool:
        return self.zero_points is not None or bool(self.weights.zero_points)

    def of_steps(self) -> tuple[Sequence[Any], _Term]:
        """One term for the codes of a step, which are scaled together; and the axes that it is summed over."""
        group, step = self._group_and_step()
        count = 2 if self.weights.bits == 4 else 1

        def term(row: Sequence[Any], tile: Any, column: Any) -> Any:
            place, code = (tile, group, column), self.codes(tile, group, step, column)
            parts = [code] if count == 1 else [code & _MAX_CODE[4], code >> 4]
            index = (group * int(self.codes.shape[2]) + step) * count
            factors = [self.left(*row, index + each) for each in range(count)]
            total = -sum(factors[1:], factors[0]) * self._zero_point(place) if self._has_zero else None
            for factor, part in zip(factors, parts, strict=True):
                product = factor * part.astype("float32")
                total = product if total is None else total + product
            return self._scaled(total, place)

        return _proper(group, step), term

    def of_numbers(self) -> tuple[Sequence[Any], _Term]:
        """One term for each code, which is made the number that it stands for; and the axes that it is summed over."""
        group, step = self._group_and_step()
        half = te.reduce_axis((0, 2), "half") if self.weights.bits == 4 else None

        def term(row: Sequence[Any], tile: Any, column: Any) -> Any:
            place, code = (tile, group, column), self.codes(tile, group, step, column)
            index = group * int(self.codes.shape[2]) + step
            if half is not None:
                code = (code >> (half * 4).astype("uint8")) & _MAX_CODE[4]
                index = index * 2 + half
            number = self._scaled(code.astype("float32"), place)
            if self._has_zero:
                # The product is the same for a whole group.
                number = number - self._scaled(self._zero_point(place), place)
            return self.left(*row, index) * number

        return _proper(group, step, half), term

    def _group_and_step(self) -> tuple[Any, Any]:
        """The number 0 for the group if there is one."""
        groups, steps = int(self.codes.shape[1]), int(self.codes.shape[2])
        return te.reduce_axis((0, groups), "group") if groups > 1 else 0, te.reduce_axis((0, steps), "k")

    def _scaled(self, value: Any, place: Sequence[Any]) -> Any:
        return value * self.scales(*place) if self.scales is not None and self.has_groups else value

    def _zero_point(self, place: Sequence[Any]) -> Any:
        if self.zero_points is not None:
            return self.zero_points(*place)
        return tirx.const(self.weights.zero_points, "float32")


def _proper(*axes: Any) -> list[Any]:
    return [each for each in axes if isinstance(each, tirx.IterVar)]
