"""Moves transpositions of a graph behind operators that do not depend on the order of axes, so that most cancel.

Models are compiled with the channels last, and ONNX's convolutions have them second: each is between two
transpositions. The libraries remove most of these, but then do not fuse each bias and activation with its convolution.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from tunefarm_search.relax.onnx_graph.graph import Graph, Node
from tunefarm_search.relax.onnx_graph.model import contents

_UNARY: Final = frozenset(
    {
        *("Abs", "Cast", "Ceil", "Clip", "Erf", "Exp", "Floor", "Gelu", "LeakyRelu", "Log", "Neg", "Relu", "Selu"),
        *("Sigmoid", "Softplus", "Sqrt", "Tanh"),
    }
)
_BINARY: Final = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"})
_REDUCTIONS: Final = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"})


@dataclass(frozen=True)
class _PermutedValue:
    """A value that is another one with permuted axes; axis ``n`` of it is axis ``axes[n]`` of ``base``."""

    base: str
    axes: tuple[int, ...]


def without_inner_transpositions(graph: Graph, results: Sequence[str]) -> tuple[str, ...]:
    """Change ``graph``; return the values that are now ``results``."""
    return _Moving(graph).changed(results)


class _Moving:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._moved: dict[str, _PermutedValue] = {}
        self._same: dict[str, str] = {}  # values whose transpositions cancelled, and what they are
        self._made: dict[_PermutedValue, str] = {}

    def changed(self, results: Sequence[str]) -> tuple[str, ...]:
        nodes, self._graph.nodes = self._graph.nodes, []
        for node in nodes:
            self._add(replace(node, inputs=tuple(self._same.get(each, each) for each in node.inputs)))
        return tuple(self._present(self._same.get(each, each)) for each in results)

    def _add(self, node: Node) -> None:
        if node.operator == "Transpose":
            self._transpose(node)
            return
        rewrite = _REWRITES.get(node.operator)
        if rewrite is None or not any(each in self._moved for each in node.inputs) or not rewrite(self, node):
            self._graph.nodes.append(replace(node, inputs=tuple(map(self._present, node.inputs))))

    def _transpose(self, node: Node) -> None:
        [given], [result] = node.inputs, node.outputs
        axes = tuple(int(axis) for axis in node.attributes["perm"])  # type: ignore[union-attr]
        if given in self._graph.constants:
            self._same[result] = self._constant(given, axes)
            return
        known = self._moved.get(given, _PermutedValue(given, tuple(range(len(axes)))))
        combined = tuple(known.axes[axis] for axis in axes)
        if combined == tuple(range(len(axes))):
            self._same[result] = known.base
        else:
            self._moved[result] = _PermutedValue(known.base, combined)

    def _constant(self, name: str, axes: Sequence[int]) -> str:
        return self._graph.constant(np.ascontiguousarray(np.transpose(contents(self._graph.constants[name]), axes)))

    def _present(self, name: str) -> str:
        """The value by a node of the graph."""
        moved = self._moved.get(name)
        return name if moved is None else self._emitted(moved)

    def _emitted(self, moved: _PermutedValue) -> str:
        if moved not in self._made:
            self._made[moved] = self._graph.emit("Transpose", moved.base, perm=moved.axes)
        return self._made[moved]

    def _before(self, node: Node, inputs: Sequence[str], axes: tuple[int, ...]) -> None:
        """Add the node with the inputs before their transposition; its result is transposed."""
        base = self._graph.emit(node.operator, *inputs, **node.attributes)
        if node.outputs[0] in self._graph.shapes:
            shape = self._graph.shapes[node.outputs[0]]
            self._graph.shapes[base] = tuple(shape[axes.index(axis)] for axis in range(len(axes)))
        self._moved[node.outputs[0]] = _PermutedValue(base, axes)

    def unary(self, node: Node) -> bool:
        """An operator of the first input; others are numbers."""
        moved = self._moved.get(node.inputs[0])
        if moved is None:
            return False
        self._before(node, (moved.base, *node.inputs[1:]), moved.axes)
        return True

    def binary(self, node: Node) -> bool:
        """An operator of inputs that are transposed alike, or constants."""
        axes = next(self._moved[each].axes for each in node.inputs if each in self._moved)
        inputs = [self._operand(each, axes) for each in node.inputs]
        if any(each is None for each in inputs):
            return False
        self._before(node, [each for each in inputs if each is not None], axes)
        return True

    def _operand(self, name: str, axes: tuple[int, ...]) -> str | None:
        moved = self._moved.get(name)
        if moved is not None:
            return moved.base if moved.axes == axes else None
        shape = self._graph.shape_of(name)
        if shape is None or len(shape) > len(axes):
            return None
        inverse = [axes.index(axis) for axis in range(len(axes))]
        if name not in self._graph.constants:
            return self._emitted(_PermutedValue(name, tuple(inverse))) if len(shape) == len(axes) else None
        array = contents(self._graph.constants[name])
        if array.size == 1:
            return self._graph.constant(array.reshape(()))
        filled = array.reshape([1] * (len(axes) - array.ndim) + list(array.shape))
        return self._graph.constant(np.ascontiguousarray(np.transpose(filled, inverse)))

    def concatenation(self, node: Node) -> bool:
        """All inputs are transposed alike."""
        found = [self._moved.get(each) for each in node.inputs]
        axes = {each.axes for each in found if each is not None}
        if None in found or len(axes) != 1:
            return False
        [common] = axes
        own = replace(node, attributes={"axis": common[int(node.attributes["axis"])]})  # type: ignore[arg-type]
        self._before(own, [each.base for each in found if each is not None], common)
        return True

    def reduction(self, node: Node) -> bool:
        """Over constant axes, which are kept."""
        moved = self._moved.get(node.inputs[0])
        axes = self._graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if moved is None or axes is None or int(node.attributes.get("keepdims", 1)) != 1:  # type: ignore[arg-type]
            return False
        own = self._graph.integers([moved.axes[int(axis)] for axis in contents(axes)])
        self._before(node, (moved.base, own), moved.axes)
        return True


_REWRITES: Final[Mapping[str, Callable[[_Moving, Node], bool]]] = MappingProxyType(
    {
        **dict.fromkeys(_UNARY, _Moving.unary),
        **dict.fromkeys(_BINARY, _Moving.binary),
        **dict.fromkeys(_REDUCTIONS, _Moving.reduction),
        "Concat": _Moving.concatenation,
    }
)
