"""Winograd's matrices for convolutions with a kernel of 3 x 3, from Lavin and Gray, "Fast Algorithms for CNNs" (2015).

A tile of m x m results comes from (m + 2) x (m + 2) inputs d and the kernel g as A^T [(G g G^T) * (B^T d B)] A, where *
multiplies element by element. So there are (m + 2)^2 multiplications instead of 9 m^2, for each pair of channels.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tunefarm_search.relax.constants import Array

KERNEL: Final = 3
Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Winograd:
    """The matrices for tiles of ``results`` x ``results``, by rows: B^T, A^T and G."""

    results: int
    of_inputs: Rows
    of_results: Rows
    of_kernel: Rows

    @property
    def inputs(self) -> int:
        """Rows and columns of the inputs that a tile of results needs."""
        return self.results + KERNEL - 1

    def kernels(self, weights: Array) -> Array:
        """Kernels of shape (3, 3, inputs, outputs), transformed to (self.inputs ** 2, inputs, outputs)."""
        high, wide, *channels = weights.shape
        both = np.kron(np.array(self.of_kernel), np.array(self.of_kernel))
        transformed = both @ weights.reshape(high * wide, -1).astype(np.float64)
        return transformed.reshape(-1, *channels).astype(weights.dtype)


WINOGRADS: Final = (
    Winograd(
        results=2,
        of_inputs=((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
        of_results=((1, 1, 1, 0), (0, 1, -1, -1)),
        of_kernel=((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    ),
    Winograd(
        results=4,
        of_inputs=(
            *((4, 0, -5, 0, 1, 0), (0, -4, -4, 1, 1, 0), (0, 4, -4, -1, 1, 0)),
            *((0, -2, -1, 2, 1, 0), (0, 2, -1, -2, 1, 0), (0, 4, 0, -5, 0, 1)),
        ),
        of_results=((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
        of_kernel=(
            *((1 / 4, 0, 0), (-1 / 6, -1 / 6, -1 / 6), (-1 / 6, 1 / 6, -1 / 6)),
            *((1 / 24, 1 / 12, 1 / 6), (1 / 24, -1 / 12, 1 / 6), (0, 0, 1)),
        ),
    ),
)
"""Larger tiles save more, but lose too many digits of a float32."""
