"""Rounding to bfloat16 as arithmetic on bits."""

from typing import Any, Final

from tvm import tirx

SHIFT: Final = 16
"""Bits of a float32 that a bfloat16 lacks."""
_HALF: Final = 0x7FFF
"""What rounds to the nearest together with the last bit that is kept, and to even ones between two."""


def rounded_bits(value: Any) -> Any:
    """The bits of the bfloat16 nearest to a float32, as a uint32. The expression has ``value`` twice."""
    bits, shift = tirx.reinterpret("uint32", value), tirx.const(SHIFT, "uint32")
    odd = tirx.bitwise_and(bits >> shift, tirx.const(1, "uint32"))
    return (bits + odd + tirx.const(_HALF, "uint32")) >> shift
