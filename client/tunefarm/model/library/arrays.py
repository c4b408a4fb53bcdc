"""NumPy arrays on their way to and from a library."""

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Port:
    """An input or output of a model: its name, shape and element type."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size_bytes(self) -> int:
        """Of its contents."""
        return math.prod(self.shape) * self.dtype.itemsize


def run_arrays(
    run_at: Callable[[Sequence[int], Sequence[int]], None],
    ports: tuple[Sequence[Port], Sequence[Port]],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> None:
    """Call ``run_at`` with the addresses of arrays, and of copies of those that are not contiguous or not aligned.

    Raises:
        ValueError: an array has another shape or element type than its port.
    """
    given = [_usable(port, array) for port, array in zip(ports[0], inputs, strict=True)]
    written = [_usable(port, array) for port, array in zip(ports[1], outputs, strict=True)]
    run_at([each.ctypes.data for each in given], [each.ctypes.data for each in written])
    for array, copy in zip(outputs, written, strict=True):
        if copy is not array:
            array[...] = copy


def _usable(port: Port, array: Array) -> Array:
    if array.shape != port.shape or array.dtype != port.dtype:
        expected, found = f"{port.dtype}{list(port.shape)}", f"{array.dtype}{list(array.shape)}"
        raise ValueError(f"{port.name} is {found}, and the model has {expected}")
    return array if array.flags.c_contiguous and array.flags.aligned else array.copy(order="C")


def view_at(port: Port, address: int) -> Array:
    """The memory at an address as an array that does not own it."""
    memory = memoryview((ctypes.c_char * port.size_bytes).from_address(address))
    return np.frombuffer(memory, np.uint8).view(port.dtype).reshape(port.shape)


@contextmanager
def failures_of(library: str) -> Iterator[None]:
    """Turn what a library raises into a ``RuntimeError`` of one line."""
    try:
        yield
    except Exception as error:
        raise RuntimeError(f"{library} failed: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """The end of an error's message, which names the cause, without line breaks."""
    return " ".join(str(error).split())[-400:]
