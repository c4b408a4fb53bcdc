"""An ONNX graph under construction, without the onnx package."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from tunefarm_search.relax.constants import Array, numpy_dtype

Attribute = int | float | str | Sequence[int] | Sequence[float]
OPSET: Final = 20
"""The oldest with Gelu; onnxruntime 1.17 and OpenVINO 2024 read it."""
TYPES: Final = ("bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64")
"""Element types that the libraries compute with."""
FLOATS: Final = ("float16", "float32", "float64")
NUMBERS: Final = (*FLOATS, "int32", "int64")


class Unexportable(Exception):
    """Raised with the reason why a binding has no ONNX nodes of the same meaning."""


@dataclass(frozen=True)
class Node:
    """One call of an ONNX operator."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


class Graph:
    """Nodes in the order of their computation, and constants by name.

    A constant is an array, or a Relax constant whose contents are read when the model is written. ``channels`` are
    those of the results of convolutions, ``shapes`` those of values that Relax knows.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, Any] = {}
        self.channels: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._names = 0
        self._named: dict[str, str] = {}

    def emit(self, operator: str, *inputs: str, **attributes: Attribute) -> str:
        """Add a node with one output; return its name. The name of an optional input that is left out is empty."""
        return self.emit_several(operator, inputs, 1, **attributes)[0]

    def emit_several(
        self, operator: str, inputs: Sequence[str], outputs: int, **attributes: Attribute
    ) -> tuple[str, ...]:
        """Add a node with several outputs; return their names."""
        names = tuple(self._name() for _ in range(outputs))
        self.nodes.append(Node(operator, tuple(inputs), names, attributes))
        return names

    def name_output(self, value: str, name: str) -> None:
        """Give a value the name of an output of the graph. Inputs, constants and other outputs are copied."""
        produced = {output for node in self.nodes for output in node.outputs}
        if value not in produced or value in self._named:
            self.nodes.append(Node("Identity", (self._named.get(value, value),), (name,)))
            return
        self._named[value] = name
        renamed = {value: name}
        for at, node in enumerate(self.nodes):
            inputs = tuple(renamed.get(each, each) for each in node.inputs)
            outputs = tuple(renamed.get(each, each) for each in node.outputs)
            self.nodes[at] = replace(node, inputs=inputs, outputs=outputs)

    def constant(self, value: Any) -> str:
        """The name of a constant: an array or a Relax constant."""
        for name, known in self.constants.items():
            if known is value or (hasattr(known, "same_as") and known.same_as(value)):
                return name
        name = self._name()
        self.constants[name] = value
        return name

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of a constant or another value; None if it is not known."""
        value = self.constants.get(name)
        if value is None:
            return self.shapes.get(name)
        return tuple(int(extent) for extent in (value.shape if is_array(value) else value.ty.shape))

    def integers(self, values: Sequence[int]) -> str:
        """A one-dimensional constant of int64, such as a shape."""
        return self.constant(np.array(values, np.int64).reshape(-1))

    def scalar(self, value: float, dtype: str) -> str:
        """A constant without dimensions."""
        return self.constant(np.array(value, numpy_dtype(dtype)))

    def transposed(self, name: str, axes: Sequence[int]) -> str:
        """``name`` with permuted axes."""
        if list(axes) == sorted(axes):
            return name
        return self.emit("Transpose", name, perm=tuple(axes))

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"


def is_array(value: Any) -> bool:
    """Whether a constant of a graph is an array already."""
    return isinstance(value, np.ndarray)


def as_array(value: Array) -> Array:
    """An array with its elements in order of C."""
    return np.ascontiguousarray(value).reshape(value.shape)
