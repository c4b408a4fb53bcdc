"""Makes the steps of an unrolled LSTM one operator, for which libraries have a kernel of their own.

Frontends unroll recurrent layers. A cell is recognised by what it computes, whatever framework it came from:
``h = sigmoid(o) * tanh(c)``, ``c = sigmoid(f) * c_before + sigmoid(i) * tanh(g)``, where the gates are the four parts
of ``x W + h_before R + bias``.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tunefarm_search.relax.constants import Array
from tunefarm_search.relax.onnx_graph.graph import Graph, Node
from tunefarm_search.relax.onnx_graph.model import contents

MIN_STEPS: Final = 2
_VIEWS: Final = ("Reshape", "Squeeze", "Unsqueeze")
_ONNX_ORDER: Final = ("i", "o", "f", "g")


def with_lstm(graph: Graph, results: Sequence[str]) -> tuple[str, ...]:
    """Change ``graph``: layers of LSTM cells become ONNX LSTM nodes; return the values that are ``results`` now.

    Only those that go forward: OpenVINO computes other numbers for the second of two layers of both directions, if each
    direction is a node. A layer also stays as it is if something reads a value within it other than the outputs of its
    steps and the last state.
    """
    found, tried = tuple(results), set[str]()
    while (layer := next((each for each in _layers(graph) if each.steps[0].hidden not in tried), None)) is not None:
        tried.add(layer.steps[0].hidden)
        before = [*graph.nodes]
        changed = _replaced(graph, layer, found)
        # A product that is still needed computes the layer a second time.
        if any(node.outputs[0] == step.product for node in graph.nodes for step in layer.steps):
            graph.nodes = before
        else:
            found = changed
    return found


@dataclass(frozen=True)
class _Cell:
    """One step. Values are names; ``time`` is the position of the input in ``inputs``.

    ``parts`` has the position of each gate. ``constants`` is a digest: frontends repeat them for each step.
    """

    hidden: str
    state: str
    hidden_before: str
    state_before: str
    product: str
    recurrence: str
    biases: tuple[str, ...]
    constants: str
    parts: Mapping[str, int]
    inputs: str
    time: int

    def precedes(self, other: "_Cell") -> bool:
        return (self.hidden, self.state) == (other.hidden_before, other.state_before) and (
            self.constants,
            self.parts,
            self.inputs,
        ) == (other.constants, other.parts, other.inputs)


@dataclass(frozen=True)
class _Layer:
    """Steps in the order of their computation. ``projected`` is the input of shape [steps * batch, features]."""

    steps: tuple[_Cell, ...]
    projected: str
    weight: Array
    recurrence: Array
    bias: Array


def _layers(graph: Graph) -> Iterator[_Layer]:
    """The layers whose steps cover a whole sequence."""
    search = _Search(graph)
    rows: list[list[_Cell]] = []
    for node in graph.nodes:
        cell = search.cell(node)
        if cell is None:
            continue
        row = next((each for each in rows if each[-1].precedes(cell)), None)
        if row is None:
            rows.append([cell])
        else:
            row.append(cell)
    for row in rows:
        layer = search.layer(row)
        if layer is not None:
            yield layer


class _Search:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._producers = {output: node for node in graph.nodes for output in node.outputs}
        self._arrays: dict[str, Array | None] = {}

    def array(self, name: str) -> Array | None:
        """The contents of a value that is a part, a view or a sum of constants; None of others."""
        if name not in self._arrays:
            self._arrays[name] = self._computed(name)
        return self._arrays[name]

    def _computed(self, name: str) -> Array | None:
        if name in self._graph.constants:
            return contents(self._graph.constants[name])
        node = self._producers.get(name)
        if node is None or node.operator not in (*_VIEWS, "Add", "Split", "Slice", "Transpose"):
            return None
        shape, first = self._graph.shape_of(name), self.array(node.inputs[0])
        if shape is None or first is None:
            return None
        if node.operator == "Add":
            other = self.array(node.inputs[1])
            return None if other is None else np.asarray(first + other)
        if node.operator == "Transpose":
            return np.transpose(first, node.attributes["perm"])  # type: ignore[arg-type]
        if node.operator == "Split":
            axis: Any = node.attributes["axis"]
            ends = np.cumsum(contents(self._graph.constants[node.inputs[1]]))[:-1]
            return np.asarray(np.split(first, ends, axis)[node.outputs.index(name)])
        if node.operator == "Slice":
            at = [slice(None)] * first.ndim
            columns = [contents(self._graph.constants[each]).tolist() for each in node.inputs[1:]]
            for start, end, axis, stride in zip(*columns, strict=True):
                at[axis] = slice(start, end, stride)
            first = first[tuple(at)]
            return first if first.shape == shape else None
        return first.reshape(shape)

    def matrix(self, name: str) -> Array | None:
        """A constant matrix, or one of several that are equal, of float32."""
        found = self.array(name)
        if found is None or found.dtype != np.float32 or found.ndim not in (2, 3):
            return None
        first = found if found.ndim == 2 else found[0]
        return first if np.array_equal(np.broadcast_to(first, found.shape), found) else None

    def cell(self, node: Node) -> _Cell | None:
        """The step whose output ``node`` computes; None if it computes something else."""
        outer = self._gated(node.outputs[0]) if node.operator == "Mul" else None
        if outer is None:
            return None
        sigmoid, tanh = outer
        state = self._viewed(tanh.inputs[0])
        added = self._node(state, "Add")
        if added is None:
            return None
        for new, kept in (added.inputs, added.inputs[::-1]):
            inner, product = self._gated(new), self._node(kept, "Mul")
            if inner is None or product is None:
                continue
            for forget, before in (product.inputs, product.inputs[::-1]):
                forgetting = self._node(forget, "Sigmoid")
                if forgetting is None:
                    continue
                gates = {"o": sigmoid, "i": inner[0], "g": inner[1], "f": forgetting}
                found = self._with_gates(node.outputs[0], state, self._viewed(before), gates)
                if found is not None:
                    return found
        return None

    def _with_gates(self, hidden: str, state: str, state_before: str, gates: Mapping[str, Node]) -> _Cell | None:
        names = {gate: self._viewed(node.inputs[0]) for gate, node in gates.items()}
        split = self._node(names["i"], "Split")
        width = self._width(hidden)
        if split is None or width is None or sorted(split.outputs) != sorted(names.values()):
            return None
        if self._core(split.inputs[0])[-1:] != (4 * width,) or any(
            self._width(each) != width for each in split.outputs
        ):
            return None
        products, biases, others = self._sum(split.inputs[0])
        step = self._step(others[0]) if len(others) == 1 else None
        if len(products) != 1 or step is None:
            return None
        before, recurrence = products[0].inputs
        if self._graph.shape_of(recurrence) != (width, 4 * width):
            return None
        parts = {gate: split.outputs.index(name) for gate, name in names.items()}
        before, output = self._viewed(before), products[0].outputs[0]
        digest = self._digest((recurrence, *biases))
        if digest is None:
            return None
        return _Cell(hidden, state, before, state_before, output, recurrence, biases, digest, parts, *step)

    def _digest(self, names: Sequence[str]) -> str | None:
        arrays = [self.array(name) for name in names]
        if any(each is None for each in arrays):
            return None
        return " ".join(hashlib.sha256(each.tobytes()).hexdigest() for each in arrays if each is not None)

    def layer(self, row: Sequence[_Cell]) -> _Layer | None:
        """A layer of steps that cover the sequence which one product of a matrix projects."""
        steps = (self._graph.shape_of(row[0].inputs) or (0,))[0]
        times = [cell.time for cell in row]
        if steps < MIN_STEPS or times != [*range(steps)]:
            return None
        products, biases, others = self._sum(self._flattened(row[0].inputs))
        if len(products) != 1 or others:
            return None
        projected, weight = products[0].inputs
        matrices = self.matrix(weight), self.matrix(row[0].recurrence)
        given = [self.array(name) for name in (*biases, *row[0].biases)]
        if matrices[0] is None or matrices[1] is None:
            return None
        bias = np.zeros(matrices[0].shape[-1], np.float32)
        for each in given:
            if each is None or each.dtype != np.float32:
                return None
            bias = bias + each.reshape(-1)
        return _Layer(tuple(row), projected, matrices[0], matrices[1], bias)

    def _flattened(self, name: str) -> str:
        """What a sequence [steps, batch, width] is a reshape of: [steps * batch, width]."""
        node, shape = self._node(name, "Reshape"), self._graph.shape_of(name) or ()
        source = None if node is None else self._graph.shape_of(node.inputs[0])
        return node.inputs[0] if node is not None and source == (int(np.prod(shape[:-1])), shape[-1]) else name

    def _gated(self, name: str) -> tuple[Node, Node] | None:
        """The sigmoid and the hyperbolic tangent that ``name`` is the product of."""
        node = self._node(name, "Mul")
        if node is None:
            return None
        for one, other in (node.inputs, node.inputs[::-1]):
            sigmoid, tanh = self._node(one, "Sigmoid"), self._node(other, "Tanh")
            if sigmoid is not None and tanh is not None:
                return sigmoid, tanh
        return None

    def _sum(self, name: str) -> tuple[list[Node], tuple[str, ...], list[str]]:
        """The terms of a sum: products with constant matrices, constants for each column, and others."""
        width = self._width(name)
        products: list[Node] = []
        biases: list[str] = []
        others: list[str] = []
        waiting = [name]
        while waiting:
            term = self._viewed(waiting.pop())
            added, product = self._node(term, "Add"), self._node(term, "MatMul")
            if self._core(term) == (width,) and self.array(term) is not None:
                biases.append(term)
            elif added is not None:
                waiting.extend(added.inputs)
            elif product is not None and self.matrix(product.inputs[1]) is not None:
                products.append(product)
            else:
                others.append(term)
        return products, tuple(sorted(biases)), others

    def _step(self, name: str) -> tuple[str, int] | None:
        """The sequence that ``name`` is one step of, along its first axis, and the place of the step in it."""
        node = self._node(name, "Split")
        if node is not None:
            shape = self._graph.shape_of(node.inputs[0])
            is_step = shape is not None and node.attributes["axis"] == 0 and shape[0] == len(node.outputs)
            return (node.inputs[0], node.outputs.index(name)) if is_step else None
        node = self._node(name, "Slice")
        if node is None:
            return None
        starts, ends, axes, strides = (contents(self._graph.constants[each]).tolist() for each in node.inputs[1:])
        is_step = axes == [0] and strides == [1] and ends[0] == starts[0] + 1
        return (node.inputs[0], int(starts[0])) if is_step else None

    def _viewed(self, name: str) -> str:
        """What ``name`` is the same elements of, less axes of one element."""
        node = self._producers.get(name)
        while node is not None and node.operator in _VIEWS and self._core(node.inputs[0]) == self._core(name) != ():
            name = node.inputs[0]
            node = self._producers.get(name)
        return name

    def _node(self, name: str, operator: str) -> Node | None:
        node = self._producers.get(self._viewed(name))
        return node if node is not None and node.operator == operator else None

    def _core(self, name: str) -> tuple[int, ...]:
        return tuple(extent for extent in self._graph.shape_of(name) or () if extent != 1)

    def _width(self, name: str) -> int | None:
        """The extent of the last axis, of at least two elements."""
        shape = self._graph.shape_of(name)
        return shape[-1] if shape and shape[-1] > 1 else None


def _replaced(graph: Graph, layer: _Layer, results: Sequence[str]) -> tuple[str, ...]:
    """Put an LSTM in place of a layer, and remove what is then unused."""
    steps, nodes = layer.steps, graph.nodes
    first = next(at for at, node in enumerate(nodes) if steps[0].hidden in node.outputs)
    graph.nodes = nodes[:first]
    renamed = _emitted(graph, layer, nodes)
    for node in nodes[first:]:
        if node.outputs[0] not in renamed:
            graph.nodes.append(replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs)))
    found = tuple(renamed.get(name, name) for name in results)
    _remove_unused(graph, found)
    return found


def _emitted(graph: Graph, layer: _Layer, nodes: Sequence[Node]) -> dict[str, str]:
    """Emit an LSTM; return the new names of what its steps computed, and of all outputs joined."""
    steps = layer.steps
    shape = graph.shape_of(steps[0].hidden) or ()
    count, width = len(steps), shape[-1]
    batch = int(np.prod(shape[:-1]))
    whole = graph.integers((1, batch, width))
    features = layer.weight.shape[0]
    x = graph.emit("Reshape", layer.projected, graph.integers((count, batch, features)))
    names = [x, *_weights(graph, layer, width), ""]
    names += [graph.emit("Reshape", each, whole) for each in (steps[0].hidden_before, steps[0].state_before)]
    y, last, state = graph.emit_several("LSTM", names, 3, hidden_size=width, direction="forward")
    found: dict[str, str] = {}
    for step in steps:
        one = last if step is steps[-1] else graph.emit("Gather", y, graph.scalar(step.time, "int64"), axis=0)
        found[step.hidden] = _reshaped(graph, one, shape)
    found[steps[-1].state] = _reshaped(graph, state, graph.shape_of(steps[-1].state) or ())
    in_time = [step.hidden for step in sorted(steps, key=lambda each: each.time)]
    search = _Joining(graph, nodes)
    for node in nodes:
        if search.joins(node, in_time):
            found[node.outputs[0]] = _reshaped(graph, y, graph.shape_of(node.outputs[0]) or ())
    return found


class _Joining(_Search):
    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self._graph = graph
        self._producers = {output: node for node in nodes for output in node.outputs}

    def joins(self, node: Node, names: Sequence[str]) -> bool:
        """Whether a node puts the elements of ``names`` one behind the other."""
        if node.operator != "Concat" or [self._viewed(each) for each in node.inputs] != list(names):
            return False
        axis: Any = node.attributes["axis"]
        return all(extent == 1 for extent in (graph_shape(self._graph, node.inputs[0]))[:axis])


def graph_shape(graph: Graph, name: str) -> tuple[int, ...]:
    """The shape of a value; (0,) if it is not known."""
    return graph.shape_of(name) or (0,)


def _reshaped(graph: Graph, name: str, shape: Sequence[int]) -> str:
    found = graph.emit("Reshape", name, graph.integers(shape))
    graph.shapes[found] = tuple(shape)
    return found


def _weights(graph: Graph, layer: _Layer, width: int) -> tuple[str, str, str]:
    """Weights, recurrent weights and biases, as ONNX orders them."""
    parts = layer.steps[0].parts

    def ordered(array: Array) -> Array:
        blocks = np.split(array, 4, axis=-1)
        return np.concatenate([blocks[parts[gate]] for gate in _ONNX_ORDER], axis=-1)

    biases = np.concatenate([ordered(layer.bias), np.zeros(4 * width, np.float32)])[None]
    matrices = [ordered(each).T[None] for each in (layer.weight, layer.recurrence)]
    weight, recurrence, both = (graph.constant(np.ascontiguousarray(each)) for each in (*matrices, biases))
    return weight, recurrence, both


def _remove_unused(graph: Graph, results: Sequence[str]) -> None:
    used, kept = set(results), list[Node]()
    for node in reversed(graph.nodes):
        if not used.isdisjoint(node.outputs):
            used.update(node.inputs)
            kept.append(node)
    graph.nodes = kept[::-1]
