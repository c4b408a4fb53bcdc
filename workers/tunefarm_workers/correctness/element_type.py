"""TVM's element types as NumPy types."""

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.workload import TensorArgument


@cache
def numpy_type(dtype: str) -> np.dtype[Any]:
    """Return the NumPy type of a TVM scalar type such as ``float32`` or ``bfloat16``.

    Raises:
        BadInput: for vectors, sub-byte types and types without a NumPy layout.
    """
    name = "uint8" if dtype == "bool" else dtype
    try:
        return np.dtype(name) if not hasattr(ml_dtypes, name) else np.dtype(getattr(ml_dtypes, name))
    except TypeError as error:
        raise BadInput(
            "module", f"tensors of {dtype} cannot be checked.", "Use integers of whole bytes or a usual float type."
        ) from error


@cache
def is_floating(dtype: str) -> bool:
    """Whether elements are rounded, so that a tolerance applies."""
    return "float" in dtype


@cache
def rounding_unit(dtype: str) -> float:
    """Return the machine epsilon of a floating type."""
    return float(ml_dtypes.finfo(numpy_type(dtype)).eps)


def size_in_bytes(tensor: TensorArgument) -> int:
    """Return the size of a tensor's elements."""
    return tensor.elements * numpy_type(tensor.dtype).itemsize
