"""Conversions between floats and integers by a scale and a zero point, which libraries fuse into integer operators."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from tunefarm_search.relax.constants import numpy_dtype
from tunefarm_search.relax.onnx_graph.graph import Unexportable
from tunefarm_search.relax.onnx_graph.operator_call import OperatorCall

_BYTES: Final = ("int8", "uint8")


def _quantize(call: OperatorCall) -> str:
    call.of_types(("float32",), 0, 1)
    if call.result.dtype not in _BYTES:
        raise Unexportable(f"the result is {call.result.dtype}")
    return _converted(call, "QuantizeLinear", call.result.dtype)


def _dequantize(call: OperatorCall) -> str:
    call.of_types((*_BYTES, "int32"), 0)
    call.of_types(("float32",), 1)
    if call.result.dtype != "float32":
        raise Unexportable(f"the result is {call.result.dtype}")
    return _converted(call, "DequantizeLinear", call.kind(0).dtype)


def _converted(call: OperatorCall, operator: str, dtype: str) -> str:
    scale, zero = call.kind(1), call.kind(2)
    axis = call.kind(0).axis(int(call.attributes.axis))
    if scale.dimensions > 1 or zero.dimensions > 1:
        raise Unexportable("its scales are not those of an axis")
    is_whole = scale.shape in ((), (1,)) and zero.shape in ((), (1,))
    if not is_whole and scale.shape != call.kind(0).shape[axis : axis + 1]:
        raise Unexportable("its scales are not those of an axis")
    names = [call.name(0), _scalar_if(call, call.name(1), is_whole and scale.dimensions == 1)]
    points = _zero_points(call, dtype)
    if points.any() or dtype != "int32":
        shape = () if is_whole else scale.shape
        names.append(call.graph.constant(np.broadcast_to(points.reshape(-1) if shape else points.reshape(()), shape)))
    return call.graph.emit(operator, *names, axis=0 if is_whole else axis)


def _scalar_if(call: OperatorCall, name: str, has_axis: bool) -> str:
    return call.graph.emit("Reshape", name, call.graph.integers(())) if has_axis else name


def _zero_points(call: OperatorCall, dtype: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.generic]]":
    """Zero points in the integers' own type, which ONNX requires."""
    found = call.array(2)
    if found is None:
        raise Unexportable("its zero point is not a constant")
    converted = found.astype(numpy_dtype(dtype))
    if not np.array_equal(converted.astype(np.float64), found.astype(np.float64)):
        raise Unexportable(f"its zero point is not of {dtype}")
    if dtype == "int32" and converted.any():
        raise Unexportable("its zero point is not zero")
    return converted


CONVERTERS: Final[Mapping[str, Callable[[OperatorCall], str]]] = MappingProxyType(
    {"relax.quantize": _quantize, "relax.dequantize": _dequantize}
)
