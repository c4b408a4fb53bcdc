"""Which convolutions Winograd's algorithm computes sooner, and with which tiles."""

import math
from dataclasses import dataclass
from typing import Any, Final

from tunefarm_search.relax.constants import Array
from tunefarm_search.relax.expressions import extents_of
from tunefarm_search.relax.products.convolution_kernels import kernels_of
from tunefarm_search.relax.products.winograd.matrices import KERNEL, WINOGRADS, Winograd

CHANNELS: Final = 16
"""Channels of a tile of the transformed kernels and of the results: those of a cache line, and of the widest vector."""
_MOVED: Final = 9.0
"""Multiplications in the time in which an element of the transformed inputs or products is written and read."""
_FETCHED: Final = 10.0
"""Multiplications in the time in which an element of the kernels comes from memory."""
_WORTH: Final = 0.9
"""Part of the time of the convolution as it is, from which on a change is not worth its loss of digits."""
_WORTH_ZEROS: Final = 0.75
"""The same where channels of zeros are added and cut off again."""


@dataclass(frozen=True)
class WinogradConvolution:
    """A convolution of shape (images, rows, columns, inputs) to (images, *results, outputs), in tiles.

    Attributes:
        winograd: the matrices.
        padding: rows of zeros above the inputs, and columns of zeros before them.
        images: the size of the batch.
        results: rows and columns of the results.
    """

    winograd: Winograd
    padding: tuple[int, int]
    images: int
    results: tuple[int, int]

    def packed_kernels(self, kernels: Array) -> Array:
        """Kernels (3, 3, inputs, outputs), transformed, as (places, outputs // ``CHANNELS``, inputs, ``CHANNELS``)."""
        transformed = self.winograd.kernels(kernels)
        places, inputs, outputs = transformed.shape
        return transformed.reshape(places, inputs, outputs // CHANNELS, CHANNELS).transpose(0, 2, 1, 3)

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles of the results in each direction; the last ones may be larger than what is left."""
        high, wide = self.results
        return -(-high // self.winograd.results), -(-wide // self.winograd.results)

    @property
    def count(self) -> int:
        """Tiles of all images."""
        return self.images * math.prod(self.tiles)


def winograd_convolution(call: Any) -> WinogradConvolution | None:
    """How to compute a Relax expression by Winograd's algorithm; None if it is not a convolution that is worth it.

    It must have kernels of 3 x 3 and strides of 1; see ``kernels_of`` for what else it must be.
    """
    kernels, result = kernels_of(call), _result_of_small_kernels(call)
    if kernels is None or result is None:
        return None
    *_, inputs, outputs = kernels
    if inputs % CHANNELS or outputs % CHANNELS:
        return None
    best = _best(call, result, inputs, outputs)
    return best if _cost(best, inputs, outputs) <= _WORTH * _cost_of_sums(result, inputs, outputs) else None


def channels_of_winograd(call: Any, inputs: int, outputs: int) -> tuple[int, int] | None:
    """The inputs and outputs, zeros included, with which Winograd's algorithm computes a convolution sooner.

    None if it has such numbers, or takes no less time with them than the sums of so many inputs and outputs.
    """
    result = _result_of_small_kernels(call)
    padded = -(-inputs // CHANNELS) * CHANNELS, -(-outputs // CHANNELS) * CHANNELS
    if result is None or padded == (inputs, outputs):
        return None
    cost = _cost(_best(call, result, *padded), *padded)
    return padded if cost <= _WORTH_ZEROS * _cost_of_sums(result, inputs, outputs) else None


def _result_of_small_kernels(call: Any) -> tuple[int, ...] | None:
    """The extents of the result of a convolution with kernels of 3 x 3 and strides of 1; None of anything else."""
    kernels = kernels_of(call)
    is_small = kernels is not None and kernels[:2] == (KERNEL, KERNEL)
    return extents_of(call) if is_small and {int(each) for each in call.attrs.strides} == {1} else None


def _best(call: Any, result: tuple[int, ...], inputs: int, outputs: int) -> WinogradConvolution:
    top, left, *_ = (int(each) for each in call.attrs.padding)
    images, *extents, _ = result
    found = [WinogradConvolution(each, (top, left), images, (extents[0], extents[1])) for each in WINOGRADS]
    return min(found, key=lambda each: _cost(each, inputs, outputs))


def _cost_of_sums(result: tuple[int, ...], inputs: int, outputs: int) -> float:
    """Estimated time of the convolution as it is, in multiplications."""
    return KERNEL**2 * inputs * outputs * (math.prod(result[:3]) + _FETCHED)


def _cost(convolution: WinogradConvolution, inputs: int, outputs: int) -> float:
    """Estimated time, in multiplications."""
    tiles = convolution.count
    each = inputs * outputs * (tiles + _FETCHED) + _MOVED * tiles * (inputs + outputs)
    return convolution.winograd.inputs**2 * each
