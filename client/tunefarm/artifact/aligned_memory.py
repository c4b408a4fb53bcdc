"""Memory that kernels can read and write in place."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

ALIGNMENT_BYTES: Final = 64
"""Kernels load whole vectors, and refuse tensors that begin elsewhere."""


def aligned_memory(size_bytes: int) -> npt.NDArray[np.uint8]:
    """Memory with any contents that begins at a multiple of ``ALIGNMENT_BYTES``."""
    memory = np.empty(size_bytes + ALIGNMENT_BYTES, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[begin : begin + size_bytes]


def aligned_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy of an array in such memory."""
    copy = aligned_memory(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
