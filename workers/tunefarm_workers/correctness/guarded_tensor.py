"""Tensors between guard zones that no correct kernel writes to."""

import zlib
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.correctness.element_type import is_floating, size_in_bytes

GUARD_BYTES = 4096
"""A page on either side, so that the tensor keeps its alignment within pages."""

GUARD_VALUE = 0x5A
_view = tvm_ffi.get_global_func("runtime.TVMTensorCreateView")
_UNWRITTEN_FLOAT = 0xFF
"""Repeated, it is a NaN, so that an unwritten element is noticed."""
_UNWRITTEN_INTEGER = 0xA5


def unwritten_byte(dtype: str) -> int:
    """Return the byte that fills unwritten memory."""
    return _UNWRITTEN_FLOAT if is_floating(dtype) else _UNWRITTEN_INTEGER


class GuardedTensor:
    """One tensor in memory that TVM allocates, as a caller's would be."""

    def __init__(self, tensor: TensorArgument, contents: "np.ndarray[Any, Any] | None" = None) -> None:
        """Fill with ``contents``, or with bytes that no kernel computes."""
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
        """Overwrite the contents with bytes that no kernel computes."""
        self._inside[:] = self._unwritten

    def fill(self, contents: np.ndarray[Any, Any]) -> None:
        """Set the contents of an input, or of an output that is read as well."""
        self._inside[:] = np.ascontiguousarray(contents).reshape(-1).view(np.uint8)

    def contents(self) -> memoryview:
        """Return a view of the contents."""
        return self._inside.data[: self._contents_bytes]

    def checksum(self) -> int:
        """Return a checksum of the contents and the guard zones."""
        return zlib.crc32(self._whole.data)

    def guards_hold(self) -> bool:
        """Whether both guard zones are unchanged."""
        before, behind = self._whole[:GUARD_BYTES], self._whole[-GUARD_BYTES:]
        return bool((before == GUARD_VALUE).all() and (behind == GUARD_VALUE).all())
