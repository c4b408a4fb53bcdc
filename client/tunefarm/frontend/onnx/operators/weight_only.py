"""Products and lookups with weights that are quantized alone, in blocks with scales of their own."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from tvm import relax

from tunefarm.frontend.onnx.operators.constants import constant

_BITS: Final = frozenset({2, 4, 8})


def matmul_of_bits(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """MatMulNBits of com.microsoft: the matrix is [columns, blocks, bytes of a block]."""
    del scope
    data, packed, scales, zero_points, order, bias = [*inputs, None, None, None][:6]
    inner, width, block = (int(attributes[name]) for name in ("K", "N", "block_size"))
    bits, blocks, dtype = int(attributes.get("bits", 4)), -(-inner // block), str(data.ty.dtype)
    if order is not None:
        raise ValueError("g_idx, an order of the rows that is not that of blocks, has no conversion")
    numbers = relax.op.reshape(_unpacked(builder, packed, bits), (width, blocks, block))
    if zero_points is None:
        zero = constant(np.array(1 << (bits - 1), dtype))
    else:
        zero = _of_blocks(builder, zero_points, bits, (width, blocks, 1), dtype)
    factors = builder.emit(relax.op.reshape(scales, (width, blocks, 1)))
    matrix = builder.emit(relax.op.reshape(_numbers(builder, numbers, zero, factors, dtype), (width, blocks * block)))
    if blocks * block > inner:
        matrix = builder.emit(relax.op.strided_slice(matrix, [1], [0], [inner]))
    result = builder.emit(relax.op.matmul(data, builder.emit(relax.op.permute_dims(matrix))))
    return result if bias is None else relax.op.add(result, bias)


def gather_of_blocks(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """GatherBlockQuantized of com.microsoft: rows of a table whose scales are those of blocks of its last axis."""
    del scope
    table, indices, scales, zero_points = [*inputs, None][:4]
    bits, block = int(attributes.get("bits", 4)), int(attributes.get("block_size", 128))
    rank, dtype = len(table.ty.shape), str(scales.ty.dtype)
    axes = (int(attributes.get("gather_axis", 0)), int(attributes.get("quantize_axis", 1)) % rank)
    if rank != 2 or axes != (0, 1):
        raise ValueError("only rows of a matrix, with blocks along its rows, have a conversion")
    rows, blocks = (int(extent) for extent in scales.ty.shape)
    # A table of bytes holds several integers in each; one of 4-bit integers was unpacked with the weights.
    is_packed = str(table.ty.dtype) == "uint8" and int(table.ty.shape[1]) * _in_a_byte(bits) == blocks * block
    unpacked = _unpacked(builder, table, bits) if is_packed else table
    shape = (rows, blocks, block)
    numbers = builder.emit(relax.op.reshape(unpacked, shape))
    middle = 1 << (bits - 1) if is_packed else 0
    if zero_points is None:
        zero = constant(np.array(middle, dtype))
    else:
        zero = _of_blocks(builder, zero_points, bits if is_packed else 8, (rows, blocks, 1), dtype)
    factors = builder.emit(relax.op.reshape(scales, (rows, blocks, 1)))
    dequantized = _numbers(builder, numbers, zero, factors, dtype)
    return relax.op.take(builder.emit(relax.op.reshape(dequantized, (rows, blocks * block))), indices, axis=0)


def with_blocks(converter: Callable[[Any, Any, Mapping[str, Any], Any], Any]) -> Any:
    """A converter of DequantizeLinear for scales of blocks, too."""

    def convert(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
        if attributes.get("block_size", 0):
            return _dequantized_blocks(builder, inputs, attributes)
        return converter(builder, inputs, attributes, scope)

    return convert


def _dequantized_blocks(builder: Any, inputs: Any, attributes: Mapping[str, Any]) -> Any:
    """Elements less the zero point of their block, times its scale."""
    data, scales, zero_points = [*inputs, None][:3]
    shape, block = [int(extent) for extent in data.ty.shape], int(attributes["block_size"])
    axis, dtype = int(attributes.get("axis", 1)) % len(shape), str(scales.ty.dtype)
    if shape[axis] % block:
        raise ValueError(f"blocks of {block} elements do not divide an axis of {shape[axis]}")
    blocks = [*shape[:axis], shape[axis] // block, block, *shape[axis + 1 :]]
    of_blocks = [*blocks[: axis + 1], 1, *blocks[axis + 2 :]]
    numbers = builder.emit(relax.op.reshape(data, blocks))
    factors = builder.emit(relax.op.reshape(scales, of_blocks))
    zero = None if zero_points is None else _of_blocks(builder, zero_points, 8, of_blocks, dtype)
    return relax.op.reshape(_numbers(builder, numbers, zero, factors, dtype), shape)


def _in_a_byte(bits: int) -> int:
    """How many integers a byte holds."""
    if bits not in _BITS:
        raise ValueError(f"integers of {bits} bits have no conversion")
    return 8 // bits


def _unpacked(builder: Any, packed: Any, bits: int) -> Any:
    """The integers in bytes, the first in the lowest bits, along the last axis."""
    if _in_a_byte(bits) == 1:
        return packed
    mask = constant(np.array((1 << bits) - 1, np.uint8))
    shape = [int(extent) for extent in packed.ty.shape]
    parts = []
    for number in range(_in_a_byte(bits)):
        shifted = relax.op.right_shift(packed, constant(np.array(number * bits, np.uint8)))
        part = builder.emit(relax.op.bitwise_and(builder.emit(shifted), mask))
        parts.append(builder.emit(relax.op.expand_dims(part, -1)))
    joined = builder.emit(relax.op.concat(parts, axis=-1))
    return builder.emit(relax.op.reshape(joined, (*shape[:-1], shape[-1] * _in_a_byte(bits))))


def _of_blocks(builder: Any, values: Any, bits: int, shape: Any, dtype: str) -> Any:
    """Zero points, of which each row fills whole bytes."""
    if str(values.ty.dtype) == dtype:
        return builder.emit(relax.op.reshape(values, shape))
    if _in_a_byte(bits) > 1:
        rows, blocks = int(shape[0]), int(shape[1])
        rowed = builder.emit(relax.op.reshape(values, (rows, -(-blocks // _in_a_byte(bits)))))
        values = builder.emit(relax.op.strided_slice(_unpacked(builder, rowed, bits), [1], [0], [blocks]))
    return builder.emit(relax.op.astype(builder.emit(relax.op.reshape(values, shape)), dtype))


def _numbers(builder: Any, integers: Any, zero: Any, factors: Any, dtype: str) -> Any:
    numbers = builder.emit(relax.op.astype(integers, dtype))
    if zero is not None:
        numbers = builder.emit(relax.op.subtract(numbers, zero))
    return builder.emit(relax.op.multiply(numbers, factors))
