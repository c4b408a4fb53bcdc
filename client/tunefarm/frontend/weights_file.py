"""Weights in a file without a limit of size, in the safetensors format.

A child writes them to memory that its parent made; the parent maps that memory, so weights of gigabytes are held once.
The safetensors package opens files by name, which a confined child may not, or copies their contents.
"""

import errno
import json
import mmap
import os
import resource
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

_LENGTH: Final = struct.Struct("<Q")
_ALIGNMENT_BYTES: Final = 64
_MAX_HEADER_BYTES: Final = 100 << 20
_CHUNK_BYTES: Final = 64 << 20
_HUGE_PAGE_BYTES: Final = 2 << 20
_HUGE_PAGES: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_TYPES: Final[Mapping[str, npt.DTypeLike]] = MappingProxyType(
    {
        "BOOL": np.bool_,
        "I8": np.int8,
        "I16": np.int16,
        "I32": np.int32,
        "I64": np.int64,
        "U8": np.uint8,
        "U16": np.uint16,
        "U32": np.uint32,
        "U64": np.uint64,
        "F16": np.float16,
        "F32": np.float32,
        "F64": np.float64,
        "BF16": ml_dtypes.bfloat16,
        "F8_E4M3": ml_dtypes.float8_e4m3fn,
        "F8_E5M2": ml_dtypes.float8_e5m2,
    }
)
_NAMES: Final = MappingProxyType({np.dtype(kind): name for name, kind in _TYPES.items()})


class DamagedWeights(ValueError):
    """Raised when a file does not contain what the safetensors format prescribes."""


def write_weights(descriptor: int, weights: Mapping[str, Array]) -> None:
    """Replace the contents of a file by ``weights``.

    Raises:
        ValueError: an array has an element type that the format does not have.
        OSError: the file cannot hold them.
    """
    header: dict[str, Any] = {}
    end = 0
    for name, array in weights.items():
        if array.dtype not in _NAMES:
            raise ValueError(f"{name} has the element type {array.dtype}, which weights cannot have")
        start, end = end, end + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % _ALIGNMENT_BYTES)
    _require_room(_LENGTH.size + len(text) + end)
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    _write(descriptor, _LENGTH.pack(len(text)) + text)
    for array in weights.values():
        _write(descriptor, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _require_room(size_bytes: int) -> None:
    """Raise OSError if this process may not write so large a file: the signal of such a write would end it."""
    limit_bytes = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit_bytes not in (resource.RLIM_INFINITY, -1) and size_bytes > limit_bytes:
        raise OSError(errno.EFBIG, f"they have {size_bytes} bytes, and {limit_bytes} are permitted")


class WeightMemory(Enum):
    """What the arrays of weights are views of.

    Attributes:
        READ_ONLY: the mapped file.
        WRITABLE: the mapped file; what is written changes neither the file nor the weights of other processes.
        COPIED: memory of this process that asks for huge pages. Kernels that stream their weights through the caches
            wait less for the addresses of pages (ADR 73).
    """

    READ_ONLY = auto()
    WRITABLE = auto()
    COPIED = auto()


def have_huge_pages() -> bool:
    """Whether the system gives huge pages to memory that asks for them."""
    try:
        return "[never]" not in _HUGE_PAGES.read_text(encoding="ascii")
    except OSError:
        return False


def read_weights(descriptor: int, memory: WeightMemory = WeightMemory.READ_ONLY) -> Mapping[str, Array]:
    """The weights of a file, as views of one piece of ``memory``. The descriptor can be closed afterwards.

    Raises:
        DamagedWeights: the file has another format.
    """
    size_bytes = os.fstat(descriptor).st_size
    if size_bytes < _LENGTH.size:
        raise DamagedWeights(f"the file has only {size_bytes} bytes")
    contents = _contents(descriptor, size_bytes, memory)
    (header_bytes,) = _LENGTH.unpack(contents[: _LENGTH.size])
    start = _LENGTH.size + header_bytes
    if header_bytes > _MAX_HEADER_BYTES or start > size_bytes:
        raise DamagedWeights("its header is longer than the file")
    try:
        header = json.loads(bytes(contents[_LENGTH.size : start]))
        return {name: _array(contents[start:], entry) for name, entry in header.items() if name != "__metadata__"}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedWeights(f"its header is damaged: {error}") from error


def _contents(descriptor: int, size_bytes: int, memory: WeightMemory) -> memoryview:
    if memory is WeightMemory.COPIED:
        return _copied(descriptor, size_bytes)
    access = mmap.ACCESS_READ if memory is WeightMemory.READ_ONLY else mmap.ACCESS_COPY
    return memoryview(mmap.mmap(descriptor, 0, access=access))


def _copied(descriptor: int, size_bytes: int) -> memoryview:
    """The contents of a file in memory that asks for huge pages.

    Its size is rounded up to whole huge pages, since Linux aligns only such memory to them.
    """
    whole_bytes = -(-size_bytes // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
    memory = mmap.mmap(-1, whole_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel that was built without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    contents, done = memoryview(memory)[:size_bytes], 0
    while done < size_bytes:
        read_bytes = os.preadv(descriptor, [contents[done : done + _CHUNK_BYTES]], done)
        if read_bytes == 0:
            raise DamagedWeights(f"the file ends after {done} of {size_bytes} bytes")
        done += read_bytes
    return contents


def places_of_weights(descriptor: int) -> Mapping[str, int]:
    """The byte of a file of ``write_weights`` at which each weight begins."""
    (header_bytes,) = _LENGTH.unpack(os.pread(descriptor, _LENGTH.size, 0))
    header = json.loads(os.pread(descriptor, header_bytes, _LENGTH.size))
    start = _LENGTH.size + header_bytes
    return {name: start + entry["data_offsets"][0] for name, entry in header.items()}


def _array(contents: memoryview, entry: Mapping[str, Any]) -> Array:
    kind = np.dtype(_TYPES[entry["dtype"]])
    shape: Sequence[int] = entry["shape"]
    first, end = entry["data_offsets"]
    elements = 1
    for extent in shape:
        if not isinstance(extent, int) or extent < 0:
            raise ValueError(f"an extent is {extent}")
        elements *= extent
    if not 0 <= first <= end <= len(contents) or end - first != elements * kind.itemsize:
        raise ValueError("an array is not where it is said to be")
    return np.frombuffer(contents[first:end], np.uint8).view(kind).reshape(tuple(shape))


def _write(descriptor: int, contents: bytes | memoryview) -> None:
    left = memoryview(contents)
    while left:
        left = left[os.write(descriptor, left[:_CHUNK_BYTES]) :]
