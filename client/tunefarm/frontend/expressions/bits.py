"""The bits of elements: as numbers of another type, and how many are zero."""

from typing import Any

import tvm
from tvm import te, tirx


def reinterpreted(data: te.Tensor, dtype: str) -> te.Tensor:
    """The same bits as elements of another type, as StableHLO and ONNX have it.

    Where the types differ in width, a last axis goes over the parts of the wider type, from the lowest bits on. A
    narrower type adds it, and a wider one takes it away.
    """
    given = str(data.dtype)
    width, wanted = (tvm.DataType(each).bits for each in (given, dtype))
    shape, parts = list(data.shape), max(width, wanted) // min(width, wanted)
    if width == wanted:
        return te.compute(shape, lambda *index: _cast_bits(data(*index), dtype), name="reinterpret")
    if width > wanted:
        whole = f"uint{width}"

        def part(*index: Any) -> Any:
            shift = tirx.Cast(whole, index[-1]) * tirx.const(wanted, whole)
            bits = _cast_bits(data(*index[:-1]), whole) >> shift
            return _cast_bits(bits.astype(f"uint{wanted}"), dtype)

        return te.compute([*shape, parts], part, name="reinterpret")

    def joined(*index: Any) -> Any:
        bits = tirx.const(0, f"uint{wanted}")
        for number in range(parts):
            piece = _cast_bits(data(*index, number), f"uint{width}").astype(f"uint{wanted}")
            bits = tirx.bitwise_or(bits, piece << tirx.const(number * width, f"uint{wanted}"))
        return _cast_bits(bits, dtype)

    return te.compute(shape[:-1], joined, name="reinterpret")


def _cast_bits(value: Any, dtype: str) -> Any:
    return value if str(value.ty.dtype) == dtype else tirx.reinterpret(dtype, value)


def leading_zeros(x: Any) -> Any:
    """The number of zeros above the highest bit of an integer that is set; of 0, its width."""
    dtype = str(x.ty.dtype)
    width = tvm.DataType(dtype).bits
    whole = f"uint{width}"
    bits = x.astype(whole)
    distance = 1
    while distance < width:  # sets all bits below the highest one
        bits = tirx.bitwise_or(bits, bits >> tirx.const(distance, whole))
        distance *= 2
    return tirx.popcount(tirx.bitwise_not(bits)).astype(dtype)
