"""Weights in the layout that dot products read, and what the zero point of the activations adds to the sums."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tunefarm_search.tvm.tensor_intrinsics.dot_products import PRODUCTS, SUMS

MAX_PARTS: Final = 3
_LOWEST, _HIGHEST = -128, 127
_MAX_SUM: Final = (1 << 31) - 1
_MAX_ACTIVATION: Final = 255

Integers = npt.NDArray[Any]


@dataclass(frozen=True)
class PackedWeights:
    """Constant weights of a convolution or matrix product.

    Attributes:
        packed: int8, [output blocks, parts, *kernel, input blocks, 16, 4]. A weight is the sum of its parts.
        totals: the sum of all weights of each output channel, int64, [output channels].
        channels_in: before the blocks of four were filled with zeros.
        channels_out: before the blocks of 16 were filled with zeros.
    """

    packed: Integers
    totals: Integers
    channels_in: int
    channels_out: int

    @property
    def kernel(self) -> tuple[int, ...]:
        """The extents of the window."""
        return tuple(self.packed.shape[2:-3])

    @property
    def parts(self) -> int:
        """The number of 8-bit integers that make up a weight."""
        return int(self.packed.shape[1])


def packed_weights(weights: Integers) -> PackedWeights | None:
    """Pack weights less their zero point, [output channels, *kernel, input channels].

    A weight that 8 bits do not hold, since its zero point is far from the middle, becomes a sum of two or three.

    Returns None if a sum might exceed 32 bits.
    """
    channels_out, channels_in = weights.shape[0], weights.shape[-1]
    wide = weights.astype(np.int64)
    if np.abs(wide).reshape(channels_out, -1).sum(axis=1).max(initial=0) * _MAX_ACTIVATION > _MAX_SUM:
        return None
    filled = np.zeros((_up(channels_out, SUMS), *weights.shape[1:-1], _up(channels_in, PRODUCTS)), np.int64)
    filled[:channels_out, ..., :channels_in] = wide
    parts = _parts(filled)
    if parts is None:
        return None
    stacked = np.stack(parts, axis=1)
    blocks = stacked.reshape(-1, SUMS, *stacked.shape[1:-1], stacked.shape[-1] // PRODUCTS, PRODUCTS)
    packed = np.moveaxis(blocks, 1, -2)
    totals = wide.reshape(channels_out, -1).sum(axis=1)
    return PackedWeights(np.ascontiguousarray(packed.astype(np.int8)), totals, channels_in, channels_out)


def _parts(weights: Integers) -> list[Integers] | None:
    """Integers of 8 bits that add up to each weight."""
    found: list[Integers] = []
    rest = weights
    while len(found) < MAX_PARTS:
        found.append(np.clip(rest, _LOWEST, _HIGHEST))
        rest = rest - found[-1]
        if not rest.any():
            return found
    return None


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
