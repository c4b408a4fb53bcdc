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
from tunefarm_search.relax.products.convolution_kernels import OPERATORS, SPATIAL


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


Phases = tuple[list[Taps], ...]
"""The taps of the phases of each axis of a transposed convolution."""


def phases_of(call: Any) -> Phases | None:
    """The phases of ``call``, a Relax ``conv1d_transpose``, ``conv2d_transpose`` or ``conv3d_transpose`` of NCHW.

    None if it cannot have them.
    """
    attributes = call.attrs
    if int(attributes.groups) != 1 or set(integers(attributes.dilation)) != {1}:
        return None
    padding, strides = integers(attributes.padding), integers(attributes.strides)
    cut_off = zip(padding[: len(strides)], padding[len(strides) :], strict=True)
    extents = (integers(each.ty.shape)[2:] for each in (call.args[1], call.args[0], call))
    found = []
    for stride, ends, kernel, pixels, results in zip(strides, cut_off, *extents, strict=True):
        taps = taps_of_phases(kernel, stride, ends, pixels, results)
        if taps is None:
            return None
        found.append(taps)
    return tuple(found)


def transposed_convolution(call: Any, phases: Phases, data: Any, weights: Array, builder: Any) -> Any:
    """The result of a transposed convolution with the channels last.

    Args:
        call: the operator, with the channels first.
        phases: of ``call``.
        data: its input with the channels last.
        weights: (inputs, outputs, *kernel).
        builder: a Relax block builder.
    """
    dtype, rank = str(call.ty.dtype), len(phases)  # halves may be summed in float32

    def joined(chosen: tuple[list[Taps], ...]) -> Any:
        """All blocks with the phases ``chosen`` of the first axes."""
        if len(chosen) == rank:
            return _block(data, weights, chosen, dtype, builder)
        parts = [joined((*chosen, each)) for each in _together(phases[len(chosen)])]
        return parts[0] if len(parts) == 1 else builder.emit(relax.op.concat(parts, 1 + rank + len(chosen)))

    blocks = joined(())
    images, *sizes, outputs = integers(blocks.ty.shape)
    order = [axis for pixels in range(1, 1 + rank) for axis in (pixels, pixels + rank)]
    moved = builder.emit(relax.op.permute_dims(blocks, [0, *order, 1 + 2 * rank]))
    computed = [pixels * each for pixels, each in zip(sizes[:rank], sizes[rank:], strict=True)]
    whole = relax.op.reshape(moved, (images, *computed, outputs))
    results = integers(call.ty.shape)[2:]
    if computed == results:
        return whole
    return relax.op.strided_slice(builder.emit(whole), [*range(1, 1 + rank)], [0] * rank, results)


def _together(taps: Sequence[Taps]) -> list[list[Taps]]:
    """Neighbouring phases that read the same pixels."""
    return [list(each) for _, each in groupby(taps, key=lambda each: (len(each.elements), each.padding))]


def _block(data: Any, weights: Array, chosen: Sequence[list[Taps]], dtype: str, builder: Any) -> Any:
    """Some phases of each axis, of shape (images, *pixels, *phases, outputs)."""
    rank, taken = len(chosen), weights
    for axis, taps in enumerate(chosen):
        # (inputs, outputs, phases, taps, ..., the rest of the kernel)
        taken = np.take(taken, np.array([each.elements for each in taps]), axis=2 + 2 * axis)
    kernel = np.transpose(taken, [*range(3, 3 + 2 * rank, 2), 0, *range(2, 2 + 2 * rank, 2), 1])
    shape, starts, ends = kernel.shape, *zip(*(taps[0].padding for taps in chosen), strict=True)
    name = f"relax.nn.conv{rank}d"
    convolved = builder.emit(
        OPERATORS[name](
            data,
            constant_of(kernel.reshape(*shape[: 1 + rank], math.prod(shape[1 + rank :]))),
            padding=(*starts, *ends),
            data_layout=f"N{SPATIAL[name]}C",
            kernel_layout=f"{SPATIAL[name]}IO",
            out_dtype=dtype,
        )
    )
    pixels = integers(convolved.ty.shape)[: 1 + rank]
    return builder.emit(relax.op.reshape(convolved, (*pixels, *shape[1 + rank :])))
