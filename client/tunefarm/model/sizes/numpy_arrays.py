"""NumPy arrays as inputs and outputs of models with dynamic dimensions."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tunefarm.model.sizes.size_dispatch import Shape

NumpyArray = npt.NDArray[np.generic]


class NumpyOperations:
    """``ArrayOperations`` of NumPy."""

    def type_of(self, array: NumpyArray) -> tuple[str, Shape]:
        """The element type and the shape."""
        return str(array.dtype), tuple(array.shape)

    def padded(self, array: NumpyArray, shape: Shape, value: float | None) -> NumpyArray:
        """A larger array of ``shape`` with ``array`` at its beginning."""
        larger = np.full(shape, value or 0, dtype=array.dtype)
        larger[tuple(slice(extent) for extent in array.shape)] = array
        return larger

    def narrowed(self, array: NumpyArray, axis: int, start: int, end: int) -> NumpyArray:
        """A part of ``array``, as a view."""
        return array[(slice(None),) * axis + (slice(start, end),)]

    def joined(self, arrays: Sequence[NumpyArray], axis: int) -> NumpyArray:
        """Arrays one after the other."""
        return np.concatenate(arrays, axis)


def leaves_of(result: Any) -> list[Any]:
    """The tensors of a result, nested tuples flattened."""
    if isinstance(result, tuple):
        return [leaf for each in result for leaf in leaves_of(each)]
    return [result]


def nested_like(result: Any, leaves: Iterator[Any]) -> Any:
    """``leaves`` in the nesting of ``result``."""
    if isinstance(result, tuple):
        return tuple(nested_like(each, leaves) for each in result)
    return next(leaves)
