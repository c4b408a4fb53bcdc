"""What ONNX nodes say: their attributes, their types, and which of their inputs are constants."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto
from onnx.helper import tensor_dtype_to_np_dtype

_CONSTANT_INPUTS: Final[Mapping[str, tuple[int, ...]]] = {
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "Compress": (1,),
    "ConvInteger": (2, 3),
    "QGemm": (1, 2, 4, 5, 7, 8),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "Reshape": (1,),
    "Split": (1,),
    "Tile": (1,),
    "Pad": (1, 2, 3),
    "Gather": (1,),
}
"""Inputs, by operator, that are constants of the module whatever their size."""
_BYTES: Final[Mapping[str, str]] = {"int4": "int8", "uint4": "uint8"}


def in_bytes(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Integers of 4 bits in bytes: TVM has no others."""
    return array.astype(_BYTES[str(array.dtype)]) if str(array.dtype) in _BYTES else array


def constant_inputs(node: Any) -> tuple[int, ...]:
    """The inputs of a node that are constants of the module. There are too many scales of blocks."""
    return () if any(each.name == "block_size" for each in node.attribute) else _CONSTANT_INPUTS.get(node.op_type, ())


def attributes_of(node: Any) -> dict[str, Any]:
    """The attributes of a node as TVM's converters read them: strings are bytes, lists are tuples."""
    return {each.name: _attribute(each) for each in node.attribute}


def _attribute(attribute: Any) -> Any:
    fields = {
        AttributeProto.FLOAT: "f", AttributeProto.INT: "i", AttributeProto.STRING: "s", AttributeProto.TENSOR: "t",
        AttributeProto.GRAPH: "g", AttributeProto.TYPE_PROTO: "tp",
    }  # fmt: skip
    if attribute.type in fields:
        return getattr(attribute, fields[attribute.type])
    lists = {AttributeProto.FLOATS: "floats", AttributeProto.INTS: "ints", AttributeProto.STRINGS: "strings"}
    return tuple(getattr(attribute, lists[attribute.type]))


def type_name(element_type: int) -> str:
    """TVM's name of an ONNX element type."""
    return str(tensor_dtype_to_np_dtype(element_type))
