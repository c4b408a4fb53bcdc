"""Relax constants."""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax


def constant(array: npt.ArrayLike) -> Any:
    """A Relax constant of the same type: left to itself, TVM stores 64-bit numbers in 32 bits."""
    exact = np.asarray(array)
    return relax.const(exact, str(exact.dtype))
