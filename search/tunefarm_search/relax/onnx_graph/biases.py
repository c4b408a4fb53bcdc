"""Makes constant addends of convolutions their biases, as frameworks write them.

The libraries do this too, except where the weight is the result of another node, such as a DequantizeLinear: there the
addition would keep the convolution from being computed in integers.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from tunefarm_search.relax.onnx_graph.graph import Graph, Node
from tunefarm_search.relax.onnx_graph.model import contents

_CONVOLUTIONS: Final = ("Conv", "ConvTranspose")


def with_biases(graph: Graph, outputs: frozenset[str]) -> Graph:
    """Change ``graph``: additions of a constant per channel to the result of a convolution become its bias.

    They stay where something else, such as an output of the graph, uses the result.
    """
    uses = Counter(name for node in graph.nodes for name in node.inputs)
    producers = {node.outputs[0]: at for at, node in enumerate(graph.nodes) if node.operator in _CONVOLUTIONS}
    removed: set[int] = set()
    for at, node in enumerate(graph.nodes):
        if node.operator != "Add":
            continue
        found = next((name for name in node.inputs if name in producers), None)
        if found is None or uses[found] != 1 or found in outputs:
            continue
        where = producers[found]
        addend = node.inputs[1] if node.inputs[0] == found else node.inputs[0]
        bias = _bias(graph, graph.nodes[where], addend)
        if bias is not None:
            convolution = graph.nodes[where]
            # The addition's place: values that the convolution reads are computed before it.
            graph.nodes[at] = replace(convolution, inputs=(*convolution.inputs, bias), outputs=node.outputs)
            removed.add(where)
    graph.nodes = [node for at, node in enumerate(graph.nodes) if at not in removed]
    return graph


def _bias(graph: Graph, convolution: Node, addend: str) -> str | None:
    """The name of a constant with one number for each channel; None if ``addend`` is something else."""
    if addend not in graph.constants or len(convolution.inputs) != 2:
        return None
    array = contents(graph.constants[addend])
    dimensions = len(convolution.attributes["kernel_shape"]) + 2  # type: ignore[arg-type]
    shape = (1,) * (dimensions - array.ndim) + array.shape
    channels = graph.channels[convolution.outputs[0]]
    if len(shape) != dimensions or shape != (1, channels, *[1] * (dimensions - 2)):
        return None
    return graph.constant(array.reshape(-1))
