"""The layout of a function's outputs, and the slots in which they are sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.correctness.element_type import is_floating, numpy_type
from tunefarm_workers.correctness.inputs import INPUT_SETS

FIRST_SLOT, LAST_SLOT = 0, 1
"""Slots for a candidate's outputs of the first and of the last call on the first set of inputs; other sets follow."""
SLOTS = 1 + INPUT_SETS


def reference_slot(set_number: int, *, double: bool) -> int:
    """Return the slot of a reference: those in the outputs' own types precede the widened ones."""
    return set_number + INPUT_SETS * double


@dataclass(frozen=True)
class OutputLayout:
    """Type, shape and size in bytes of each output.

    With ``double`` every element of a floating output takes 64 bits.
    """

    tensors: tuple[TensorArgument, ...]
    sizes_bytes: tuple[int, ...]
    double: bool

    @classmethod
    def of(cls, arguments: tuple[TensorArgument, ...], *, double: bool = False) -> "OutputLayout":
        """Lay out the outputs among ``arguments``."""
        tensors = tuple(argument for argument in arguments if argument.is_output)
        sizes_bytes = tuple(tensor.elements * element_type(tensor, double).itemsize for tensor in tensors)
        return cls(tensors=tensors, sizes_bytes=sizes_bytes, double=double)

    def arrays(self, contents: Sequence[bytes | bytearray | memoryview]) -> list[np.ndarray[Any, Any]]:
        """Return the outputs as views of ``contents``, one block of memory for each."""
        return [
            np.frombuffer(content, element_type(tensor, self.double)).reshape(tensor.shape)
            for tensor, content in zip(self.tensors, contents, strict=True)
        ]


def element_type(tensor: TensorArgument, double: bool) -> np.dtype[Any]:
    """Return the type of one element as a child sends it."""
    return np.dtype(np.float64) if double and is_floating(tensor.dtype) else numpy_type(tensor.dtype)
