"""TVM's runtime without its compiler, for processes that only run what was compiled."""

import ctypes
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from tunefarm_schemas.workload import TensorArgument
from tunefarm_workers.element_type import numpy_type

Array = np.ndarray[Any, Any]


class NoRuntime(Exception):
    """Raised when TVM is not installed, or its runtime library cannot be loaded."""


@cache
def load_runtime() -> ctypes.CDLL:
    """Load the runtime library, once, so that compiled libraries find it.

    Raises:
        NoRuntime: it is not there.
    """
    package = find_spec("tvm")
    if package is None or package.origin is None:
        raise NoRuntime("TVM is not installed in this environment")
    try:
        return ctypes.CDLL(str(Path(package.origin).parent / "lib" / "libtvm_runtime.so"), mode=os.RTLD_GLOBAL)
    except OSError as error:
        raise NoRuntime(str(error)) from error


def allocate(tensor: TensorArgument) -> Any:
    """Memory for one tensor, as TVM allocates it."""
    make = tvm_ffi.get_global_func("runtime.TVMTensorAllocWithScope")
    return make(tvm_ffi.Shape(list(tensor.shape)), tvm_ffi.dtype(tensor.dtype), tvm_ffi.device("cpu", 0), None)


def fill(device_tensor: Any, array: Array) -> None:
    """Copy the contents of ``array`` into a tensor of the same size."""
    contents = np.ascontiguousarray(array)
    copy = tvm_ffi.get_global_func("runtime.TVMTensorCopyFromBytes")
    copy(device_tensor, contents.ctypes.data_as(ctypes.c_void_p), contents.nbytes)


def contents_of(device_tensor: Any, tensor: TensorArgument) -> Array:
    """A copy of a tensor's contents."""
    contents: Array = np.empty(tensor.shape, numpy_type(tensor.dtype))
    copy = tvm_ffi.get_global_func("runtime.TVMTensorCopyToBytes")
    copy(device_tensor, contents.ctypes.data_as(ctypes.c_void_p), contents.nbytes)
    return contents
