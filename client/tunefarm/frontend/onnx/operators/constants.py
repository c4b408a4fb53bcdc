"""Relax constants, and values in another element type."""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import GenericConst


def constant(array: npt.ArrayLike) -> Any:
    """A Relax constant of the same type: left to itself, TVM stores 64-bit numbers in 32 bits."""
    exact = np.asarray(array)
    return relax.const(exact, str(exact.dtype))


def cast(builder: Any, value: Any, dtype: str) -> Any:
    """The value in an element type."""
    return value if str(value.ty.dtype) == dtype else builder.emit(relax.op.astype(value, dtype))


def numbers_of(value: Any) -> Any:
    """The contents of a constant input; None if it is absent or empty, as ONNX writes sizes that are not used.

    Raises:
        ValueError: it is not a constant.
    """
    if value is None:
        return None
    if not isinstance(value, GenericConst):
        raise ValueError("its sizes depend on the input of the model")
    numbers = value.value.numpy()
    return numbers if numbers.size else None
