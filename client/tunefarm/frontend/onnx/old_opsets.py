"""Brings a model of an older opset to one that the converters know: ONNX's own conversion alone does not suffice."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper, shape_inference, version_converter

from tunefarm.frontend.onnx.skeleton import all_nodes, subgraphs

_BOUNDS_ARE_INPUTS: Final = 11
"""The opset since which the bounds of Clip and the number of Pad are inputs, and Resize names its coordinates."""
_OF_TYPE: Final[Mapping[str, tuple[int, ...]]] = {"Clip": (1, 2), "Pad": (2,)}
"""Inputs that have the type of the first. ONNX's conversion makes them float32."""


def converted(model: Any, from_opset: int, to_opset: int) -> Any:
    """The same model in a newer opset.

    Raises:
        RuntimeError: ONNX cannot convert it.
    """
    types = _types_of(model) if from_opset < _BOUNDS_ARE_INPUTS else {}
    newer = version_converter.convert_version(model, to_opset)
    if from_opset < _BOUNDS_ARE_INPUTS:
        constants = _constants_of(newer)
        for node in all_nodes(newer.graph):
            if node.op_type == "Resize":
                _state_coordinates(node, constants)
            for position in _OF_TYPE.get(node.op_type, ()):
                if position < len(node.input) and node.input[position] in constants:
                    _give_type(constants[node.input[position]], types.get(node.input[0], TensorProto.FLOAT))
    return newer


def _types_of(model: Any) -> dict[str, int]:
    """The element types of the values of a model and of the bodies in it."""
    inferred = shape_inference.infer_shapes(model).graph
    graphs = (inferred, *subgraphs(inferred))
    types = {each.name: each.data_type for graph in graphs for each in graph.initializer}
    values = [each for graph in graphs for each in (*graph.input, *graph.value_info, *graph.output)]
    return types | {each.name: each.type.tensor_type.elem_type for each in values}


def _constants_of(model: Any) -> dict[str, Any]:
    """ONNX's ``TensorProto`` of each value that is a constant."""
    graphs = (model.graph, *subgraphs(model.graph))
    stated = {each.name: each for graph in graphs for each in graph.initializer}
    nodes = [node for node in all_nodes(model.graph) if node.op_type == "Constant"]
    return stated | {node.output[0]: each.t for node in nodes for each in node.attribute if each.name == "value"}


def _state_coordinates(node: Any, constants: Mapping[str, Any]) -> None:
    """Resize and Upsample of before put the first elements upon each other, and took the one before or behind."""
    scales = numpy_helper.to_array(constants[node.input[2]]) if node.input[2] in constants else np.ones(1)
    shrinks = bool(np.all(scales <= 1) and np.any(scales < 1))
    node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    node.attribute.append(helper.make_attribute("nearest_mode", "ceil" if shrinks else "floor"))


def _give_type(tensor: Any, element_type: int) -> None:
    if tensor.data_type == TensorProto.FLOAT and element_type not in {TensorProto.FLOAT, TensorProto.UNDEFINED}:
        array = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(element_type))
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
