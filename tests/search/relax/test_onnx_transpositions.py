"""Transpositions of an exported graph move behind operators on elements, and cancel."""

from collections.abc import Callable, Sequence

import numpy as np

from tunefarm_search.relax.onnx_graph.graph import Graph, Node
from tunefarm_search.relax.onnx_graph.model import contents
from tunefarm_search.relax.onnx_graph.transpositions import without_inner_transpositions

TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
IMAGE = (1, 4, 5, 3)


def changed(build: Callable[[Graph], Sequence[str]]) -> tuple[Graph, tuple[str, ...]]:
    """The graph of a value ``x`` with the channels last, after the change, and its results."""
    graph = Graph()
    graph.shapes["x"] = IMAGE
    return graph, without_inner_transpositions(graph, build(graph))


def convolved(graph: Graph, value: str) -> str:
    """As a converter does: the identity stands for the convolution."""
    found = graph.emit("Conv", graph.transposed(value, TO_FIRST), kernel_shape=(1, 1))
    result = graph.transposed(found, TO_LAST)
    graph.shapes[result] = IMAGE
    return result


def operators(graph: Graph) -> list[str]:
    return [node.operator for node in graph.nodes]


def only(graph: Graph, operator: str) -> Node:
    [found] = [node for node in graph.nodes if node.operator == operator]
    return found


def test_convolutions_with_bias_and_activation_follow_each_other() -> None:
    def build(graph: Graph) -> list[str]:
        bias = graph.constant(np.arange(3, dtype="float32").reshape(1, 1, 1, 3))
        one = graph.emit("Add", convolved(graph, "x"), bias)
        graph.shapes[one] = IMAGE
        two = graph.emit("Clip", one, graph.scalar(0, "float32"), graph.scalar(6, "float32"))
        return [convolved(graph, two)]

    graph, [result] = changed(build)
    assert operators(graph) == ["Transpose", "Conv", "Add", "Clip", "Conv", "Transpose"]
    assert graph.nodes[-1].outputs == (result,)
    assert contents(graph.constants[only(graph, "Add").inputs[1]]).shape == (1, 3, 1, 1)


def test_shortcuts_and_concatenations_keep_the_order_of_the_convolutions() -> None:
    def build(graph: Graph) -> list[str]:
        one, two = convolved(graph, "x"), convolved(graph, "x")
        total = graph.emit("Add", one, two)
        graph.shapes[total] = IMAGE
        return [graph.emit("Concat", total, one, axis=3)]

    graph, _ = changed(build)
    assert operators(graph).count("Transpose") == 2  # of the input, and of the result
    assert only(graph, "Concat").attributes == {"axis": 1}


def test_axes_of_a_reduction_move() -> None:
    def build(graph: Graph) -> list[str]:
        return [graph.emit("ReduceMean", convolved(graph, "x"), graph.integers((1, 2)), keepdims=1)]

    graph, _ = changed(build)
    assert contents(graph.constants[only(graph, "ReduceMean").inputs[1]]).tolist() == [2, 3]


def test_operator_that_depends_on_the_order_gets_the_transposed_value() -> None:
    def build(graph: Graph) -> list[str]:
        return [graph.emit("Softmax", convolved(graph, "x"), axis=-1), graph.emit("Neg", convolved(graph, "x"))]

    graph, results = changed(build)
    softmax = only(graph, "Softmax")
    [producer] = [node for node in graph.nodes if node.outputs[0] == softmax.inputs[0]]
    assert (producer.operator, producer.attributes) == ("Transpose", {"perm": TO_LAST})
    assert results[0] == softmax.outputs[0]


def test_transposed_constants_are_computed() -> None:
    def build(graph: Graph) -> list[str]:
        weight = graph.constant(np.zeros((1, 1, 3, 7), "float32"))
        return [graph.emit("Conv", "x", graph.transposed(weight, (3, 2, 0, 1)), kernel_shape=(1, 1))]

    graph, _ = changed(build)
    assert operators(graph) == ["Conv"]
    assert contents(graph.constants[graph.nodes[0].inputs[1]]).shape == (7, 3, 1, 1)
