"""NumPy arrays and tensors of TVM that have the same memory."""

from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tunefarm.artifact.aligned_memory import ALIGNMENT_BYTES, aligned_copy

Array = npt.NDArray[Any]
_EXCHANGED: Final[dict[str, np.dtype[Any]]] = {"bool": np.dtype(np.uint8), "bfloat16": np.dtype(np.uint16)}
"""Types that the protocol of NumPy lacks, by name, and those as which their memory is passed on."""


def usable_array(array: Array) -> Array:
    """An array with the same contents that TVM can have a view of, if it can have one."""
    # A copy by TVM takes twice as long, and 20 us more.
    return aligned_copy(array) if has_view(array) and usable_view(array) is None else array


def usable_view(array: Array) -> Any:
    """TVM's view of an array that can have one; None if kernels cannot use its memory in place."""
    flags = array.flags
    if not (flags.c_contiguous and flags.writeable):
        return None
    view = tensor_of(array)
    return view if view.data_ptr() % ALIGNMENT_BYTES == 0 else None


def has_view(array: Array) -> bool:
    """Whether TVM can have the memory of a usable array with these elements."""
    return _exchanged(array.dtype) is not None and array.size > 0


@cache
def _exchanged(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The type of the same size as which NumPy and TVM can exchange memory; None if there is none."""
    return dtype if dtype.kind in "iuf" else _EXCHANGED.get(dtype.name)


def tensor_of(array: Array) -> Any:
    """A tensor of TVM with the contents of a usable array: a view if possible, else a copy."""
    import tvm
    import tvm_ffi

    exchanged = _exchanged(array.dtype)
    if exchanged is None or not array.size:
        return tvm.runtime.tensor(array)
    if exchanged == array.dtype:
        return tvm_ffi.from_dlpack(array)
    return _viewed(tvm_ffi.from_dlpack(array.view(exchanged)), array.dtype.name)


def _viewed(tensor: Any, dtype: str) -> Any:
    """The memory of a tensor of TVM as one of another type of the same size."""
    return tensor._create_view(tensor.shape, dtype)  # noqa: SLF001 - TVM's Python has no other name for it


@cache
def element_type(name: str) -> np.dtype[Any]:
    """NumPy's type of TVM's name."""
    import ml_dtypes  # noqa: F401 - registers its types

    return np.dtype(name)


def array_of(tensor: Any, dtype: np.dtype[Any]) -> Array:
    """A tensor of TVM with elements of ``dtype`` as an array: a view if possible, else a copy."""
    exchanged = _exchanged(dtype)
    if exchanged is None:
        copied: Array = tensor.numpy()
        return copied
    if exchanged == dtype:
        return np.from_dlpack(tensor)
    return np.from_dlpack(_viewed(tensor, exchanged.name)).view(dtype)
