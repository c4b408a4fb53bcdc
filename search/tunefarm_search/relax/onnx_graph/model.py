"""Writes a graph as a serialized ONNX model, with its large constants in a file of their own."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_search.relax.constants import Array, array_of
from tunefarm_search.relax.onnx_graph.graph import OPSET, Graph, Node, as_array, is_array

if TYPE_CHECKING:
    import onnx

EXTERNAL_BYTES: Final = 4096
"""Constants of at least this size become external data."""
_IR_VERSION: Final = 9


@dataclass(frozen=True)
class OnnxRegion:
    """A part of a Relax function as an ONNX model.

    Attributes:
        model: a serialized ``ModelProto``. If it was made with a location, its external data have that location, and
            no offsets until ``place_weights`` gives them theirs.
        weights: the external data by name. Names are digests of contents, so that regions of a model share them.
        inputs: of the ONNX graph, in the order of the function's parameters.
        outputs: of the ONNX graph, in the order of the function's results.
    """

    model: bytes = field(repr=False)
    weights: Mapping[str, Array] = field(repr=False)
    inputs: tuple[TensorArgument, ...]
    outputs: tuple[TensorArgument, ...]


def region_of(
    graph: Graph, inputs: Sequence[TensorArgument], outputs: Sequence[TensorArgument], location: str | None
) -> OnnxRegion:
    """Serialize a graph, whose values have the names of ``inputs`` and ``outputs``."""
    from onnx import helper

    arrays = {name: contents(value) for name, value in _used(graph).items()}
    external = {} if location is None else {name: a for name, a in arrays.items() if a.nbytes >= EXTERNAL_BYTES}
    renamed = {name: _digest(array) for name, array in external.items()}
    weights = {renamed[name]: array for name, array in external.items()}
    tensors = [_embedded(name, array) for name, array in arrays.items() if name not in external]
    tensors += [_external(name, array, location or "") for name, array in weights.items()]
    types = {each.name: each for each in (*inputs, *outputs)}
    described = {
        name: helper.make_tensor_value_info(name, onnx_type(each.dtype), each.shape) for name, each in types.items()
    }
    proto = helper.make_graph(
        [_node(node, renamed) for node in graph.nodes],
        "region",
        [described[each.name] for each in inputs],
        [described[each.name] for each in outputs],
        tensors,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(proto, ir_version=_IR_VERSION, opset_imports=opsets, producer_name="tunefarm")
    return OnnxRegion(model.SerializeToString(deterministic=True), weights, tuple(inputs), tuple(outputs))


def place_weights(region: OnnxRegion, offsets: Mapping[str, int]) -> bytes:
    """The model of ``region`` with the places of its external data.

    Args:
        region: made with a location.
        offsets: for each of its weights, the byte of the file at which it begins.

    Raises:
        KeyError: there is no offset of a weight.
    """
    from onnx import ModelProto, TensorProto

    model = ModelProto.FromString(region.model)
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            _place(tensor, offset=offsets[tensor.name], length=region.weights[tensor.name].nbytes)
    return bytes(model.SerializeToString(deterministic=True))


def onnx_type(dtype: str) -> int:
    """The number that ONNX has for an element type."""
    return _NUMBERS[dtype]


_NUMBERS: Final = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
}


def _used(graph: Graph) -> dict[str, Any]:
    used = {name for node in graph.nodes for name in node.inputs}
    return {name: value for name, value in graph.constants.items() if name in used}


def contents(value: Any) -> Array:
    """The contents of a constant of a graph."""
    return as_array(value if is_array(value) else array_of(value))


def _digest(array: Array) -> str:
    found = hashlib.sha256(f"{array.dtype}{array.shape}".encode())
    found.update(array.reshape(-1).view("uint8").data)
    return f"weight_{found.hexdigest()[:32]}"


def _node(node: Node, renamed: Mapping[str, str]) -> "onnx.NodeProto":
    from onnx import helper

    inputs = [renamed.get(name, name) for name in node.inputs]
    return helper.make_node(node.operator, inputs, list(node.outputs), name=node.outputs[0], **node.attributes)


def _embedded(name: str, array: Array) -> "onnx.TensorProto":
    from onnx import numpy_helper

    return numpy_helper.from_array(array, name)


def _external(name: str, array: Array, location: str) -> "onnx.TensorProto":
    from onnx import TensorProto

    tensor = TensorProto(name=name, dims=array.shape, data_type=onnx_type(str(array.dtype)))
    tensor.data_location = TensorProto.EXTERNAL
    _place(tensor, location=location)
    return tensor


def _place(tensor: "onnx.TensorProto", **values: str | int) -> None:
    for key, value in values.items():
        tensor.external_data.add(key=key, value=str(value))
