"""Samples of the output of an untuned function that takes too long to compute completely."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from secrets import randbelow
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np

from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.correctness.output_layout import OutputLayout

_DRAWN: Final = 10
"""Drawn for each set of inputs, besides the first and the last element, where loops are cut into blocks."""
_MAX_DISPUTED: Final = 4
_NONE_DISPUTED: Final[Mapping[int, Collection[int]]] = MappingProxyType({})

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class OutputSamples:
    """Row-major numbers of elements for each set of inputs; none for a function with several outputs."""

    elements: tuple[tuple[int, ...], ...]

    @classmethod
    def drawn(cls, layout: OutputLayout, disputed: Mapping[int, Collection[int]] = _NONE_DISPUTED) -> Self:
        """Draw unpredictable elements, so that no kernel can special-case them, and add ``disputed`` ones."""
        if len(layout.tensors) != 1 or not layout.tensors[0].elements:
            return cls(())
        size = layout.tensors[0].elements
        return cls(
            tuple(
                (
                    *(0, size - 1),
                    *(randbelow(size) for _ in range(_DRAWN)),
                    *sorted(disputed.get(number, ()))[:_MAX_DISPUTED],
                )
                for number in range(INPUT_SETS)
            )
        )

    def pick(self, set_number: int, leading: int, array: Array) -> Array:
        """Return what of ``array`` was computed: for each sample, all elements that share its leading indices."""
        places = prod(array.shape[:leading])
        rows = array.reshape(places, -1)
        picked: Array = rows[np.array(self.elements[set_number]) // rows.shape[1]]
        return picked
