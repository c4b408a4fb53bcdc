"""Relax constants, and values in another element type."""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax


def constant(array: npt.ArrayLike) -> Any:
    """A Relax constant of the same type: left to itself, TVM stores 64-bit numbers in 32 bits."""
    exact = np.asarray(array)
    return relax.const(exact, str(exact.dtype))


def cast(builder: Any, value: Any, dtype: str) -> Any:
    """The value in an element type."""
    return value if str(value.ty.dtype) == dtype else builder.emit(relax.op.astype(value, dtype))
