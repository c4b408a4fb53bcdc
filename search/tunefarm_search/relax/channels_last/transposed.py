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


@dataclass(frozen=True)
class Taps:
    """The elements of a kernel, along one axis, that a phase multiplies with consecutive pixels.

    Attributes:
        first: the last element; it meets the first of the pixels.
        count: how many there are, each a stride from the next.
        padding: pixels of zeros before and behind the input.
    """

    first: int
    count: int
    padding: tuple[int, int]

    def elements(self, stride: int) -> list[int]:
        """Their indices, in the order of the pixels."""
        return [self.first - stride * step for step in range(self.count)]


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
        count = math.ceil((kernel - lowest) / stride)
        zeros = (count - 1 - shift, last + shift - (pixels - 1))
        if count < 1 or min(zeros) < 0:
            return None
        found.append(Taps(lowest + stride * (count - 1), count, zeros))
    return found


def transposed_convolution(call: Any, data: Any, weights: Array, builder: Any) -> Any:
    """The result of ``call``, a Relax ``conv2d_transpose`` of NCHW, in NHWC; None where its phases cannot be computed.

    Args:
        call: the operator.
        data: its input with the channels last.
        weights: (inputs, outputs, rows, columns).
        builder: a Relax block builder.
    """
    attributes = call.attrs
    if int(attributes.groups) != 1 or [int(each) for each in attributes.dilation] != [1, 1]:
        return None
    strides = [int(each) for each in attributes.strides]
    top, left, bottom, right = (int(each) for each in attributes.padding)
    images, *pixels, _ = (int(each) for each in data.ty.shape)
    *_, outputs, result_rows, result_columns = (int(each) for each in call.ty.shape)
    results = (result_rows, result_columns)
    high, wide = (
        taps_of_phases(int(weights.shape[2 + axis]), strides[axis], padding, pixels[axis], results[axis])
        for axis, padding in enumerate(((top, bottom), (left, right)))
    )
    if high is None or wide is None:
        return None
    bands = [
        _joined([_block(data, weights, rows, columns, strides, builder) for columns in _together(wide)], 4, builder)
        for rows in _together(high)
    ]
    blocks = _joined(bands, 3, builder)  # (images, rows, columns, phases of rows, phases of columns, outputs)
    moved = builder.emit(relax.op.permute_dims(blocks, [0, 1, 3, 2, 4, 5]))
    rows, columns = (math.ceil(extent / stride) * stride for extent, stride in zip(results, strides, strict=True))
    whole = relax.op.reshape(moved, (images, rows, columns, outputs))
    if (rows, columns) == results:
        return whole
    return relax.op.strided_slice(builder.emit(whole), [1, 2], [0, 0], list(results))


def _together(taps: Sequence[Taps]) -> list[list[Taps]]:
    """Neighbouring phases that read the same pixels."""
    return [list(each) for _, each in groupby(taps, key=lambda each: (each.count, each.padding))]


def _block(
    data: Any, weights: Array, rows: list[Taps], columns: list[Taps], strides: Sequence[int], builder: Any
) -> Any:
    """The phases ``rows`` x ``columns``, as (images, rows, columns, phases of rows, phases of columns, outputs)."""
    at_rows = np.array([each.elements(strides[0]) for each in rows])
    at_columns = np.array([each.elements(strides[1]) for each in columns])
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
        )
    )
    return builder.emit(relax.op.reshape(convolved, (*list(map(int, convolved.ty.shape))[:3], *shape[3:])))


def _joined(parts: Sequence[Any], axis: int, builder: Any) -> Any:
    return parts[0] if len(parts) == 1 else builder.emit(relax.op.concat(list(parts), axis))
