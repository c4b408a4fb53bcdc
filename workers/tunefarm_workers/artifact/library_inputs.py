"""The first set of inputs of a library, concatenated in one block of memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.artifact.library_order import TensorOrder
from tunefarm_workers.conversation.argument import Argument
from tunefarm_workers.correctness.element_type import size_in_bytes
from tunefarm_workers.correctness.inputs import InputArray

_ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class LibraryInputs:
    """The tensors of a library with the offsets of their contents, and the total size in bytes."""

    tensors: tuple[TensorOrder, ...]
    size_bytes: int

    @classmethod
    def of(cls, arguments: Sequence[Argument]) -> "LibraryInputs":
        """Lay out ``arguments``; outputs that are only written have no contents."""
        tensors, position = [], 0
        for argument in arguments:
            tensors.append(tensor_order(argument.tensor, position if argument.holds_input else None))
            if argument.holds_input:
                size_bytes = size_in_bytes(argument.tensor)
                position += -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        return cls(tensors=tuple(tensors), size_bytes=max(position, 1))

    def write(self, arrays: Sequence[InputArray | None], memory: memoryview) -> None:
        """Copy the arrays into ``memory``."""
        for tensor, array in zip(self.tensors, arrays, strict=True):
            if tensor.input_offset_bytes is not None and array is not None:
                contents = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                memory[tensor.input_offset_bytes : tensor.input_offset_bytes + contents.nbytes] = contents.data


def tensor_order(tensor: TensorArgument, input_offset_bytes: int | None = None) -> TensorOrder:
    """Describe ``tensor`` for a fresh process."""
    return TensorOrder(tensor.name, tensor.dtype, tensor.shape, tensor.is_output, input_offset_bytes)
