"""Arithmetic without subnormal numbers."""

import ctypes
import platform
from types import MappingProxyType
from typing import Final

import numpy as np

_ENVIRONMENT_BYTES: Final = 64
"""At least what ``fenv_t`` has on any processor."""
_FLUSHING: Final = MappingProxyType({"x86_64": (7, 0x8040), "aarch64": (0, 1 << 24)})
"""By machine: the word of ``fenv_t`` with the control register, and the bits that turn subnormal numbers into zeros."""


def flush_subnormals() -> bool:
    """Make this thread, and those that it starts, compute with zero in place of subnormal numbers.

    Returns whether it does: the control registers of other processors than these are not known here.
    """
    if platform.machine() not in _FLUSHING:
        return False
    for kind in (np.float16, np.float32, np.float64, np.longdouble):
        np.finfo(kind)  # cached; NumPy warns where it first finds that there are no subnormal numbers
    word, bits = _FLUSHING[platform.machine()]
    library, environment = ctypes.CDLL(None), (ctypes.c_uint32 * (_ENVIRONMENT_BYTES // 4))()
    if library.fegetenv(environment) != 0:
        return False
    environment[word] |= bits
    return bool(library.fesetenv(environment) == 0)
