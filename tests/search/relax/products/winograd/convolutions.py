"""Models of one convolution of 3 x 3, and what NumPy computes for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from tests.search.relax.models import Array, one_entry, random_array


@dataclass(frozen=True)
class Convolved:
    """A module that convolves its input with weights, adds a bias and does what ``emit`` says."""

    data: Array
    weights: Array
    bias: Array
    padding: tuple[int, int, int, int]
    emit: Callable[[Any], Any] = relax.op.nn.relu

    @property
    def module(self) -> Any:
        def build(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
            result = builder.emit(relax.op.nn.conv2d(given[0], weights[0], padding=self.padding))
            return self.emit(builder.emit(relax.op.add(result, weights[1])))

        return one_entry(build, [self.data.shape], self.constants)

    @property
    def constants(self) -> tuple[Array, Array]:
        return self.weights, self.bias

    @property
    def expected(self) -> Array:
        """Before ``emit``, in float64."""
        return convolution(self.data, self.weights, self.padding) + self.bias


def convolved(
    images: int,
    channels: tuple[int, int],
    extents: tuple[int, int],
    padding: tuple[int, int, int, int] = (1, 1, 1, 1),
    **options: Any,
) -> Convolved:
    inputs, outputs = channels
    data, weights = random_array(images, inputs, *extents), random_array(outputs, inputs, 3, 3)
    return Convolved(data, weights, random_array(1, outputs, 1, 1), padding, **options)


def convolution(data: Array, weights: Array, padding: tuple[int, int, int, int] = (1, 1, 1, 1)) -> Array:
    """The convolution of NCHW with OIHW, in float64."""
    top, left, bottom, right = padding
    padded = np.pad(data.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], axis=(2, 3))
    return np.einsum("nihwyx,oiyx->nohw", windows, weights.astype("float64"), optimize=True)
