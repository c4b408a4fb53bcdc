"""Tensors with a margin around them that no correct kernel touches."""

import zlib
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.correctness.element_type import is_floating, size_in_bytes

GUARD_BYTES = 4096
"""A page on either side, so that the tensor lies within its page as it would without a guard."""

GUARD_VALUE = 0x5A
_view = tvm_ffi.get_global_func("runtime.TVMTensorCreateView")
_UNWRITTEN_FLOAT = 0xFF
"""Every byte of a not-a-number, so that an element the kernel forgot shows."""
_UNWRITTEN_INTEGER = 0xA5


def unwritten_byte(dtype: str) -> int:
    """What fills memory that no kernel wrote to."""
    return _UNWRITTEN_FLOAT if is_floating(dtype) else _UNWRITTEN_INTEGER


class GuardedTensor:
    """One tensor in memory that TVM allocated, as a caller's would be."""

    def __init__(self, tensor: TensorArgument, contents: "np.ndarray[Any, Any] | None" = None) -> None:
        """Holds ``contents``, or without them something no kernel computes."""
        self._contents_bytes = size_in_bytes(tensor)
        self._size_bytes = max(self._contents_bytes, 1)
        self._unwritten = unwritten_byte(tensor.dtype)
        whole = tvm.runtime.empty((self._size_bytes + 2 * GUARD_BYTES,), "uint8")
        self._whole: np.ndarray[Any, Any] = np.from_dlpack(whole)
        self._whole[:GUARD_BYTES] = self._whole[-GUARD_BYTES:] = GUARD_VALUE
        self._inside = self._whole[GUARD_BYTES:-GUARD_BYTES]
        self.tensor: Any = _view(tvm_ffi.from_dlpack(self._inside), tvm_ffi.Shape(list(tensor.shape)), tensor.dtype, 0)
        if contents is None:
            self.clear()
        else:
            self.fill(contents)

    def clear(self) -> None:
        """Overwrite the contents with something no kernel computes."""
        self._inside[:] = self._unwritten

    def fill(self, contents: np.ndarray[Any, Any]) -> None:
        """Set the contents, of an input or of an output that is read as well."""
        self._inside[:] = np.ascontiguousarray(contents).reshape(-1).view(np.uint8)

    def contents(self) -> memoryview:
        """The contents, without a copy."""
        return self._inside.data[: self._contents_bytes]

    def checksum(self) -> int:
        """A number that changes when a kernel writes to it or to its margins."""
        return zlib.crc32(self._whole.data)

    def guards_hold(self) -> bool:
        """Whether both margins are as they were."""
        before, behind = self._whole[:GUARD_BYTES], self._whole[-GUARD_BYTES:]
        return bool((before == GUARD_VALUE).all() and (behind == GUARD_VALUE).all())
