"""Where the maxima of windows are, which TVM's pools do not say."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tvm import relax, tirx

from tunefarm.frontend.expressions.along_axis import extents

_HALVES: Final = frozenset({"float16", "bfloat16"})
"""TVM cannot build a search for the largest of them in bfloat16."""


@dataclass(frozen=True)
class Windows:
    """The windows of a pool, by the last axes of its input.

    Attributes:
        kernel: elements of a window.
        strides: elements between windows.
        padding: elements before the first of the input.
        dilation: elements between those of a window.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]


def positions_of_maxima(
    data: Any, counts: Sequence[int], windows: Windows, emit: Callable[[Any], Any], *, is_column_major: bool = False
) -> Any:
    """Where the maximum of each window is among the elements of its image; of equal ones, the first.

    Args:
        data: images, whose last axes are those of the windows.
        counts: windows along each of these axes.
        windows: their places.
        emit: that of TVM's ``BlockBuilder``.
        is_column_major: number the elements of an image along its first axis, not as they are in memory.

    Returns:
        int64, of shape (leading axes of ``data``, ``counts``).
    """
    axes = len(counts)
    sizes, leading = extents(data)[-axes:], extents(data)[:-axes]
    steps = _grid([np.arange(size) * apart for size, apart in zip(windows.kernel, windows.dilation, strict=True)])
    steps = steps.reshape(axes, -1)
    begins = _grid(
        [
            np.arange(count) * stride - padding
            for count, stride, padding in zip(counts, windows.strides, windows.padding, strict=True)
        ]
    )
    places = begins[:, None] + steps.reshape(axes, -1, *[1] * axes)
    is_inside = np.all((places >= 0) & (places < np.reshape(sizes, (axes, *[1] * (axes + 1)))), axis=0)
    in_memory = _distances(sizes)
    flat, dtype = emit(relax.op.reshape(data, [*leading, int(np.prod(sizes))])), str(data.ty.dtype)
    if dtype in _HALVES:
        flat, dtype = emit(relax.op.astype(flat, "float32")), "float32"
    read_at = np.where(is_inside, np.tensordot(in_memory, places, 1), 0)
    lowest = relax.const(tirx.min_value(dtype).value, dtype)
    read = emit(relax.op.take(flat, relax.const(read_at, "int64"), axis=len(leading)))
    inside = emit(relax.op.where(relax.const(is_inside, "bool"), read, lowest))
    chosen = emit(relax.op.argmax(inside, len(leading)))
    distances = _distances(sizes[::-1])[::-1] if is_column_major else in_memory
    within = emit(relax.op.take(relax.const(distances @ steps, "int64"), chosen, 0))
    return emit(relax.op.add(within, relax.const(np.tensordot(distances, begins, 1), "int64")))


def _grid(lines: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """The coordinates of all points: shape (axes, points of the first axis, ...)."""
    return np.stack(np.meshgrid(*lines, indexing="ij"))


def _distances(sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    """Elements from one to the next along each axis, where those of the last are neighbours."""
    return np.cumprod([1, *sizes[:0:-1]])[::-1]
