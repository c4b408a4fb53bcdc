"""Elements of tensors: their sizes, and how far two tensors are apart."""

import math
import struct
from array import array
from collections.abc import Iterable, Mapping
from typing import Final

SIZES: Final[Mapping[str, int]] = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "bool": 1,
    "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
}  # fmt: skip
_FLOATS: Final[Mapping[str, str]] = {"float16": "e", "bfloat16": "H", "float32": "f", "float64": "d"}
_HALF_TOLERANCES: Final = 4.0
"""Floats of 16 bits round each sum and each intermediate tensor more coarsely."""
_MIN_SCALE: Final = 1e-6
"""Outputs that are smaller throughout count as this large, as in the bundle's own self-test."""


def size_bytes(dtype: str, shape: Iterable[int]) -> int:
    """Size of a tensor.

    Raises:
        ValueError: the type is not known.
    """
    if dtype not in SIZES:
        raise ValueError(f"tensors of the type {dtype} are not supported")
    return SIZES[dtype] * math.prod(shape)


def difference(found: memoryview, expected: bytes, dtype: str) -> float:
    """The largest difference of two tensors relative to the largest element that is expected.

    Numbers that are not finite must be so in both. Types without a fraction are equal (0) or not (infinity).
    """
    if dtype not in _FLOATS:
        return 0.0 if found == expected else math.inf
    largest, scale = 0.0, _MIN_SCALE
    for one, other in zip(_numbers(found, dtype), _numbers(expected, dtype), strict=True):
        if math.isfinite(one) != math.isfinite(other):
            return math.inf
        if math.isfinite(other):
            scale = max(scale, abs(other))
            largest = max(largest, abs(one - other))
    return largest / scale


def allowed_difference(dtype: str, tolerance: float) -> float:
    """The largest ``difference`` of a right output, with the tolerance of a bundle's manifest."""
    return tolerance * _HALF_TOLERANCES if dtype in {"float16", "bfloat16"} else tolerance


def _numbers(content: bytes | memoryview, dtype: str) -> Iterable[float]:
    code = _FLOATS[dtype]
    if code == "e":  # array has no half precision
        return struct.unpack(f"{len(content) // 2}e", content)
    if code == "H":  # the upper half of a float32
        halves = array(code)
        halves.frombytes(content)
        content = array("I", (each << 16 for each in halves)).tobytes()
    numbers = array("f" if code == "H" else code)
    numbers.frombytes(content)
    return numbers
