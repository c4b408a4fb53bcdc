"""Normalizations, and softmax."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from tunefarm_search.relax.constants import numpy_dtype
from tunefarm_search.relax.onnx_graph.graph import FLOATS, Unexportable
from tunefarm_search.relax.onnx_graph.operator_call import Names, OperatorCall, integers


def _softmax(operator: str) -> Callable[[OperatorCall], str]:
    def convert(call: OperatorCall) -> str:
        call.of_types(FLOATS, 0)
        return call.graph.emit(operator, call.name(0), axis=call.kind(0).axis(int(call.attributes.axis)))

    return convert


def _last_axes(call: OperatorCall) -> int:
    """The first of the normalized axes, which are the last ones."""
    kind = call.kind(0)
    axes = sorted(kind.axis(axis) for axis in integers(call.attributes.axes))
    if not axes or axes != list(range(axes[0], kind.dimensions)):
        raise Unexportable("its axes are not the last ones")
    return axes[0]


def _layer_norm(call: OperatorCall) -> str:
    call.of_one_type(FLOATS, 0, 1, 2)
    axis, epsilon = _last_axes(call), float(call.attributes.epsilon)
    names = [call.name(at) for at in range(3)]
    return call.graph.emit("LayerNormalization", *names, axis=axis, epsilon=epsilon)


def _rms_norm(call: OperatorCall) -> str:
    """As the operators that libraries fuse, since opset 20 has none for it."""
    call.of_one_type(("float32", "float64"), 0, 1)
    graph, kind, axis = call.graph, call.kind(0), _last_axes(call)
    axes = graph.integers(range(axis, kind.dimensions))
    squared = graph.emit("Pow", call.name(0), graph.scalar(2.0, kind.dtype))
    mean = graph.emit("ReduceMean", squared, axes, keepdims=1)
    root = graph.emit("Sqrt", graph.emit("Add", mean, graph.scalar(float(call.attributes.epsilon), kind.dtype)))
    return graph.emit("Mul", graph.emit("Div", call.name(0), root), call.name(1))


def _channel_first(call: OperatorCall, axes: Sequence[int]) -> int:
    """The number of channels, of a normalization of all axes behind them."""
    kind = call.kind(0)
    spatial = sorted(kind.axis(axis) for axis in axes)
    if kind.axis(int(call.attributes.channel_axis)) != 1 or spatial != list(range(2, kind.dimensions)) or not spatial:
        raise Unexportable("its channels are not the second axis, or it does not normalize all axes behind them")
    return kind.shape[1]


def _instance_norm(call: OperatorCall) -> str:
    call.of_one_type(("float32",), 0, 1, 2)
    _channel_first(call, integers(call.attributes.axes))
    names = [call.name(at) for at in range(3)]
    return call.graph.emit("InstanceNormalization", *names, epsilon=float(call.attributes.epsilon))


def _group_norm(call: OperatorCall) -> str:
    call.of_one_type(("float32",), 0, 1, 2)
    graph, kind = call.graph, call.kind(0)
    channels = _channel_first(call, integers(call.attributes.axes))
    groups = int(call.attributes.num_groups)
    elements = math.prod(kind.shape[1:]) // groups
    grouped = graph.emit("Reshape", call.name(0), graph.integers((kind.shape[0], groups, elements)))
    ones = graph.constant(np.ones(groups, numpy_dtype(kind.dtype)))
    zeros = graph.constant(np.zeros(groups, numpy_dtype(kind.dtype)))
    epsilon = float(call.attributes.epsilon)
    normalized = graph.emit("InstanceNormalization", grouped, ones, zeros, epsilon=epsilon)
    found = graph.emit("Reshape", normalized, graph.integers(kind.shape))
    shape = graph.integers((channels, *[1] * (kind.dimensions - 2)))
    scaled = graph.emit("Mul", found, graph.emit("Reshape", call.name(1), shape))
    return graph.emit("Add", scaled, graph.emit("Reshape", call.name(2), shape))


def _batch_norm(call: OperatorCall) -> Names:
    call.of_one_type(("float32",), *range(5))
    attributes, kind = call.attributes, call.kind(0)
    if bool(attributes.training) or kind.axis(int(attributes.axis)) != 1 or kind.dimensions < 2:
        raise Unexportable("it is for training, or its channels are not the second axis")
    if not (bool(attributes.center) and bool(attributes.scale)):
        raise Unexportable("it does not use its scale and shift")
    names = [call.name(at) for at in range(5)]
    found = call.graph.emit("BatchNormalization", *names, epsilon=float(attributes.epsilon))
    return (found, names[3], names[4])


CONVERTERS: Final[Mapping[str, Callable[[OperatorCall], Names]]] = MappingProxyType(
    {
        "relax.nn.softmax": _softmax("Softmax"),
        "relax.nn.log_softmax": _softmax("LogSoftmax"),
        "relax.nn.layer_norm": _layer_norm,
        "relax.nn.rms_norm": _rms_norm,
        "relax.nn.instance_norm": _instance_norm,
        "relax.nn.group_norm": _group_norm,
        "relax.nn.batch_norm": _batch_norm,
    }
)
