"""Memory that models read and write: at multiples of 64 bytes, as kernels require."""

import ctypes
import mmap
from pathlib import Path
from typing import Final, Protocol, TypeAlias

ALIGNMENT: Final = 64


class SupportsBuffer(Protocol):
    """Bytes, memoryview, array.array, numpy.ndarray: what has a buffer."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """The memory."""


Buffer: TypeAlias = "bytes | bytearray | memoryview | SupportsBuffer"


class AlignedMemory:
    """Memory of this process that begins at a multiple of 64 bytes.

    Attributes:
        address: where it begins.
        view: its bytes.
    """

    def __init__(self, size_bytes: int) -> None:
        self._block = (ctypes.c_char * (size_bytes + ALIGNMENT))()
        start = -ctypes.addressof(self._block) % ALIGNMENT
        self.address = ctypes.addressof(self._block) + start
        self.view = memoryview(self._block).cast("B")[start : start + size_bytes]


class MappedWeights:
    """A file of weights as memory, without a copy: processes that run the same release share it.

    Attributes:
        address: where it begins, a multiple of the page size; 0 if the file is empty.
        size_bytes: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.address, self.size_bytes = 0, path.stat().st_size
        if self.size_bytes:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            self.address = address_of(memoryview(self._map))


def address_of(view: memoryview) -> int:
    """Where the memory of a contiguous buffer begins. The caller keeps the buffer alive.

    ctypes takes addresses of writable buffers only; this asks for the buffer as C code does, and so takes any.
    """
    request = _Py_buffer()
    _get_buffer(ctypes.py_object(view), ctypes.byref(request), 0)
    address = request.buf or 0
    _release_buffer(ctypes.byref(request))
    return int(address)


class _Py_buffer(ctypes.Structure):  # noqa: N801 - CPython's name
    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes, _get_buffer.restype = (ctypes.py_object, ctypes.c_void_p, ctypes.c_int), ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = (ctypes.c_void_p,), None
