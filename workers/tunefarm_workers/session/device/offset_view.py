"""A view of a part of a tensor that compiled kernels accept.

Kernels reject tensors with a byte offset, so the view's data pointer itself is moved, while it passes through DLPack.
"""

import ctypes
from typing import Any

import tvm_ffi

from tunefarm_schemas.tuning.workload import TensorArgument

_view = tvm_ffi.get_global_func("runtime.TVMTensorCreateView")
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _DlTensor(ctypes.Structure):
    """DLPack's ``DLTensor``, the first field of ``DLManagedTensor``."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Moved:
    """Exports a view through DLPack with its byte offset added to the data pointer."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __dlpack__(self, **_: Any) -> Any:
        capsule = self._view.__dlpack__()
        tensor = _DlTensor.from_address(_pointer_of(capsule, b"dltensor"))
        tensor.data += tensor.byte_offset
        tensor.byte_offset = 0
        return capsule

    def __dlpack_device__(self) -> Any:
        return self._view.__dlpack_device__()


def view_within(whole: Any, offset_bytes: int, tensor: TensorArgument) -> Any:
    """A view with the shape and type of ``tensor``, ``offset_bytes`` into ``whole``.

    ``whole`` is in memory that this process addresses by pointers, which includes a graphics processor's.
    """
    return tvm_ffi.from_dlpack(_Moved(_view(whole, tvm_ffi.Shape(list(tensor.shape)), tensor.dtype, offset_bytes)))
