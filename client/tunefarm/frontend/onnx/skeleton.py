"""Takes the weights out of an ONNX model, so that what examines its graph is quick whatever their size."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from tunefarm.frontend.onnx.model_file import array_of
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.visible_text import visible_line

MAX_CONSTANT_ELEMENTS: Final = 1024
"""Larger arrays are weights; shapes, axes and scales are smaller and stay in the graph, where they can be folded."""


@dataclass(frozen=True)
class Skeleton:
    """A model whose large weights are inputs of its graph.

    Attributes:
        model: ONNX's ``ModelProto``; the inputs that are weights follow the others.
        weights: by their names.
    """

    model: Any
    weights: Mapping[str, npt.NDArray[np.generic]]


def skeleton_of(model: Any, folder: Path) -> Skeleton:
    """Separate the weights of a model from its graph; ``model`` is changed.

    Raises:
        BadInput: a weight is missing, mistyped or outside of ``folder``.
    """
    graph = model.graph
    if graph.sparse_initializer:
        fix = "Convert them to dense ones before the export."
        raise BadInput("model", f"{len(graph.sparse_initializer)} weights are sparse.", fix)
    for inner in subgraphs(graph):
        _embed_external(inner, folder)
    weights: dict[str, npt.NDArray[np.generic]] = {}
    small = []
    for tensor in [*graph.initializer, *_lifted_constants(graph)]:
        array = array_of(tensor, folder)
        if array.size > MAX_CONSTANT_ELEMENTS:
            weights[tensor.name] = array
        else:
            small.append(_embedded(tensor, array))
    named = weights.keys() | {tensor.name for tensor in small}
    inputs = [each for each in graph.input if each.name not in named]
    inputs += [helper.make_tensor_value_info(name, _type_of(array), array.shape) for name, array in weights.items()]
    _replace(graph.initializer, small)
    _replace(graph.input, inputs)
    model.ir_version = max(model.ir_version, 4)  # older files list their weights among the inputs
    return Skeleton(model, weights)


def subgraphs(graph: Any) -> Iterator[Any]:
    """The bodies of If, Loop and Scan in a graph, inner ones too."""
    for node in graph.node:
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs
            for each in inner:
                yield each
                yield from subgraphs(each)


def all_nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and of the bodies in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
                yield from all_nodes(inner)


def names_from_outside(body: Any) -> list[str]:
    """The names that a body and the bodies in it read and do not define, each once."""
    known = {each.name for graph in (body, *subgraphs(body)) for each in (*graph.input, *graph.initializer)}
    known |= {name for node in all_nodes(body) for name in node.output}
    read = [name for node in all_nodes(body) for name in node.input]
    read += [each.name for graph in (body, *subgraphs(body)) for each in graph.output]
    return [name for name in dict.fromkeys(read) if name and name not in known]


def _lifted_constants(graph: Any) -> list[Any]:
    """The tensors of nodes of type Constant, which are removed: they are weights like the initializers."""
    lifted, rest = [], []
    for node in graph.node:
        value = next((each for each in node.attribute if each.name == "value"), None)
        if node.op_type == "Constant" and node.domain in {"", "ai.onnx"} and value is not None:
            tensor = value.t
            tensor.name = node.output[0]
            lifted.append(tensor)
        else:
            rest.append(node)
    if lifted:
        lifted = [TensorProto.FromString(each.SerializeToString()) for each in lifted]
        _replace(graph.node, rest)
    return lifted


def _embed_external(graph: Any, folder: Path) -> None:
    tensors = list(graph.initializer)
    for node in graph.node:
        tensors += [each.t for each in node.attribute if each.type == onnx.AttributeProto.TENSOR]
    for tensor in tensors:
        array = array_of(tensor, folder)
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _embedded(tensor: Any, array: npt.NDArray[np.generic]) -> Any:
    external = tensor.data_location == TensorProto.EXTERNAL
    return numpy_helper.from_array(array, tensor.name) if external else tensor


def _type_of(array: npt.NDArray[np.generic]) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def _replace(field: Any, elements: list[Any]) -> None:
    kept = [type(each).FromString(each.SerializeToString()) for each in elements]
    del field[:]
    field.extend(kept)


def name_nodes(graph: Any) -> None:
    """Name the nodes without a name after their first output, so that errors can point at them."""
    for node in graph.node:
        if not node.name:
            node.name = visible_line(node.output[0]) if node.output else node.op_type
