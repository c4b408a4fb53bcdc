"""Which elements of its output stand for an untuned function that takes too long to be computed whole."""

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
"""For each set of inputs, beside the first element and the last one, where blocks of loops are cut."""
_MAX_DISPUTED: Final = 4
_NONE_DISPUTED: Final[Mapping[int, Collection[int]]] = MappingProxyType({})

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class OutputSamples:
    """Numbers of elements, rows first, for each set of inputs; none for a function of several outputs."""

    elements: tuple[tuple[int, ...], ...]

    @classmethod
    def drawn(cls, layout: OutputLayout, disputed: Mapping[int, Collection[int]] = _NONE_DISPUTED) -> Self:
        """Drawn anew, so that nothing can know them before; with those that are ``disputed`` of a set of inputs."""
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
        """What of ``array`` was computed: for each element all that shares its ``leading`` dimensions."""
        places = prod(array.shape[:leading])
        rows = array.reshape(places, -1)
        picked: Array = rows[np.array(self.elements[set_number]) // rows.shape[1]]
        return picked
