"""Transposed convolutions as convolutions of the input, with the channels last.

With strides ``s`` the results at ``s * q + phase`` are a convolution of the input with every ``s``-th element of the
kernel. Phases whose kernels read the same pixels are computed together, as further channels. The results of the phases
are then blocks of pixels. TVM's own lowering spreads the input with zeros and multiplies those, too: with strides of 2,
four times the work.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from tvm import relax

from tunefarm_search.relax.constants import Array, constant_of
from tunefarm_search.relax.expressions import integers


@dataclass(frozen=True)
class Taps:
    """The elements of a kernel, along one axis, that a phase multiplies with consecutive pixels.

    Attributes:
        elements: their indices, in the order of the pixels.
        padding: pixels of zeros before and behind the input.
    """

    elements: tuple[int, ...]
    padding: tuple[int, int]


def taps_of_phases(kernel: int, stride: int, padding: tuple[int, int], pixels: int, results: int) -> list[Taps] | None:
    """The taps of each phase of one axis; None if a phase has none, or skips pixels because many results are cut off.

    The number of results is rounded up to the same for each phase.

    Args:
        kernel: extent of the kernel.
        stride: of the results.
        padding: results that are cut off at either end.
        pixels: extent of the input.
        results: extent of the result.
    """
    last = math.ceil(results / stride) - 1
    found = []
    for phase in range(stride):
        shift, lowest = divmod(phase + padding[0], stride)
        elements = tuple(range(lowest, kernel, stride))[::-1]
        zeros = (len(elements) - 1 - shift, last + shift - (pixels - 1))
        if not elements or min(zeros) < 0:
            return None
        found.append(Taps(elements, zeros))
    return found


@dataclass(frozen=True)
class Phases:
    """The taps of the phases of a transposed convolution."""

    rows: list[Taps]
    columns: list[Taps]


def phases_of(call: Any) -> Phases | None:
    """The phases of ``call``, a Relax ``conv2d_transpose`` of NCHW with fixed shapes; None if it cannot have them."""
    attributes = call.attrs
    if int(attributes.groups) != 1 or integers(attributes.dilation) != [1, 1]:
        return None
    top, left, bottom, right = integers(attributes.padding)
    extents = (integers(each.ty.shape)[2:] for each in (call.args[1], call.args[0], call))
    axes = zip(integers(attributes.strides), ((top, bottom), (left, right)), *extents, strict=True)
    rows, columns = (
        taps_of_phases(kernel, stride, padding, pixels, results) for stride, padding, kernel, pixels, results in axes
    )
    return None if rows is None or columns is None else Phases(rows, columns)


def transposed_convolution(call: Any, phases: Phases, data: Any, weights: Array, builder: Any) -> Any:
    """The result of a transposed convolution in NHWC.

    Args:
        call: the operator, of NCHW.
        phases: of ``call``.
        data: its input with the channels last.
        weights: (inputs, outputs, rows, columns).
        builder: a Relax block builder.
    """
    dtype = str(call.ty.dtype)  # halves may be summed in float32
    bands = [
        _joined([_block(data, weights, rows, each, dtype, builder) for each in _together(phases.columns)], 4, builder)
        for rows in _together(phases.rows)
    ]
    blocks = _joined(bands, 3, builder)
    images, high, wide, phases_high, phases_wide, outputs = integers(blocks.ty.shape)
    moved = builder.emit(relax.op.permute_dims(blocks, [0, 1, 3, 2, 4, 5]))
    computed = [high * phases_high, wide * phases_wide]
    whole = relax.op.reshape(moved, (images, *computed, outputs))
    results = integers(call.ty.shape)[2:]
    if computed == results:
        return whole
    return relax.op.strided_slice(builder.emit(whole), [1, 2], [0, 0], results)


def _together(taps: Sequence[Taps]) -> list[list[Taps]]:
    """Neighbouring phases that read the same pixels."""
    return [list(each) for _, each in groupby(taps, key=lambda each: (len(each.elements), each.padding))]


def _block(data: Any, weights: Array, rows: list[Taps], columns: list[Taps], dtype: str, builder: Any) -> Any:
    """The phases ``rows`` x ``columns``, as (images, rows, columns, phases of rows, phases of columns, outputs)."""
    at_rows = np.array([each.elements for each in rows])
    at_columns = np.array([each.elements for each in columns])
    taken = weights[:, :, at_rows][:, :, :, :, at_columns]  # (inputs, outputs, phases, taps, phases, taps)
    kernel = np.transpose(taken, [3, 5, 0, 2, 4, 1])
    shape = kernel.shape
    (top, bottom), (left, right) = rows[0].padding, columns[0].padding
    convolved = builder.emit(
        relax.op.nn.conv2d(
            data,
            constant_of(kernel.reshape(*shape[:3], math.prod(shape[3:]))),
            padding=(top, left, bottom, right),
            data_layout="NHWC",
            kernel_layout="HWIO",
            out_dtype=dtype,
        )
    )
    return builder.emit(relax.op.reshape(convolved, (*integers(convolved.ty.shape)[:3], *shape[3:])))


def _joined(parts: Sequence[Any], axis: int, builder: Any) -> Any:
    return parts[0] if len(parts) == 1 else builder.emit(relax.op.concat(list(parts), axis))
