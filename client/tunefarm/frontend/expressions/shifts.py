"""Shifts of bits by more than their number, which processors leave undefined."""

from typing import Any

import numpy as np
import tvm
from tvm import relax

from tunefarm.frontend.expressions.complex_numbers import Emit


def shifted_left(data: Any, bits: Any, emit: Emit) -> Any:
    """Integers shifted to higher places; 0 where all their bits leave, or where ``bits`` is negative."""
    is_inside, bits = _inside(data, bits, 0, emit)
    shifted = emit(relax.op.left_shift(data, bits))
    return shifted if is_inside is None else _or_zero(is_inside, shifted, emit)


def shifted_right(data: Any, bits: Any, emit: Emit) -> Any:
    """Integers shifted to lower places; what comes in are zeros, or ones for negative numbers."""
    dtype = str(data.ty.dtype)
    is_signed = dtype.startswith("int")
    is_inside, bits = _inside(data, bits, np.iinfo(dtype).bits - 1 if is_signed else 0, emit)
    shifted = emit(relax.op.right_shift(data, bits))
    return shifted if is_inside is None or is_signed else _or_zero(is_inside, shifted, emit)


def _inside(data: Any, bits: Any, otherwise: int, emit: Emit) -> tuple[Any | None, Any]:
    """Whether shifts are by less than the width, and the shifts, with another one where they are not.

    The first is None if they are known to be.
    """
    dtype = str(bits.ty.dtype)
    width = np.iinfo(str(data.ty.dtype)).bits
    if isinstance(bits, tvm.ir.GenericConst):
        numbers = bits.value.numpy()
        if ((numbers >= 0) & (numbers < width)).all():
            return None, bits
    is_inside = emit(relax.op.less(bits, relax.const(width, dtype)))
    if dtype.startswith("int"):
        is_positive = emit(relax.op.greater_equal(bits, relax.const(0, dtype)))
        is_inside = emit(relax.op.logical_and(is_inside, is_positive))
    return is_inside, emit(relax.op.where(is_inside, bits, relax.const(otherwise, dtype)))


def _or_zero(is_inside: Any, shifted: Any, emit: Emit) -> Any:
    return emit(relax.op.where(is_inside, shifted, relax.const(0, str(shifted.ty.dtype))))
