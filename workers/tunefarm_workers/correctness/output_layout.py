"""Which outputs a function has, and how a set of them is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.correctness.element_type import is_floating, numpy_type
from tunefarm_workers.correctness.inputs import INPUT_SETS

FIRST_SLOT, LAST_SLOT = 0, 1
"""The numbers under which a candidate sends the output of the first and of the last call on the first set of inputs.

The outputs on the other sets follow.
"""
SLOTS = 1 + INPUT_SETS


def reference_slot(set_number: int, *, double: bool) -> int:
    """The number under which a reference is sent: those in the outputs' own types first, then the widened ones."""
    return set_number + INPUT_SETS * double


@dataclass(frozen=True)
class OutputLayout:
    """Type, shape and size in bytes of each output.

    With ``double`` every floating output takes 64 bits an element, whatever its own type.
    """

    tensors: tuple[TensorArgument, ...]
    sizes_bytes: tuple[int, ...]
    double: bool

    @classmethod
    def of(cls, arguments: tuple[TensorArgument, ...], *, double: bool = False) -> "OutputLayout":
        """The layout of the outputs among ``arguments``."""
        tensors = tuple(argument for argument in arguments if argument.is_output)
        sizes_bytes = tuple(tensor.elements * element_type(tensor, double).itemsize for tensor in tensors)
        return cls(tensors=tensors, sizes_bytes=sizes_bytes, double=double)

    def arrays(self, contents: Sequence[bytes | bytearray | memoryview]) -> list[np.ndarray[Any, Any]]:
        """The outputs as arrays over ``contents``, one piece of memory for each, without a copy."""
        return [
            np.frombuffer(content, element_type(tensor, self.double)).reshape(tensor.shape)
            for tensor, content in zip(self.tensors, contents, strict=True)
        ]


def element_type(tensor: TensorArgument, double: bool) -> np.dtype[Any]:
    """The type of one element as a child sends it."""
    return np.dtype(np.float64) if double and is_floating(tensor.dtype) else numpy_type(tensor.dtype)
