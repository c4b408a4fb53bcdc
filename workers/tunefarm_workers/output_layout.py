"""Where the outputs of a function lie in memory that two processes share."""

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunefarm_schemas.workload import TensorArgument
from tunefarm_workers.element_type import is_floating, numpy_type
from tunefarm_workers.inputs import INPUT_SETS

FIRST_SLOT, LAST_SLOT = 0, 1
"""Where the shared memory holds the output of the first and of the last call on the first set of inputs.

The outputs on the other sets follow.
"""
SLOTS = 1 + INPUT_SETS

_ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class OutputLayout:
    """Offsets in bytes of each output, one after the other, and the size of them all.

    With ``double`` every floating output takes 64 bits an element, whatever its own type.
    """

    tensors: tuple[TensorArgument, ...]
    offsets_bytes: tuple[int, ...]
    size_bytes: int
    double: bool

    @classmethod
    def of(cls, arguments: tuple[TensorArgument, ...], *, double: bool = False) -> "OutputLayout":
        """The layout of the outputs among ``arguments``."""
        tensors = tuple(argument for argument in arguments if argument.is_output)
        offsets, position = [], 0
        for tensor in tensors:
            offsets.append(position)
            position += tensor.elements * element_type(tensor, double).itemsize
            position = -(-position // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        return cls(tensors=tensors, offsets_bytes=tuple(offsets), size_bytes=max(position, 1), double=double)

    def arrays(self, memory: mmap.mmap, start_bytes: int) -> list[np.ndarray[Any, Any]]:
        """The outputs as arrays over ``memory`` from ``start_bytes`` on, without a copy."""
        return [
            np.frombuffer(
                memory, element_type(tensor, self.double), count=tensor.elements, offset=start_bytes + offset
            ).reshape(tensor.shape)
            for tensor, offset in zip(self.tensors, self.offsets_bytes, strict=True)
        ]


def element_type(tensor: TensorArgument, double: bool) -> np.dtype[Any]:
    """The type of one element as it is kept in shared memory."""
    return np.dtype(np.float64) if double and is_floating(tensor.dtype) else numpy_type(tensor.dtype)
