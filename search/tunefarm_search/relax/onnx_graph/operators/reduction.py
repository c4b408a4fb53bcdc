"""Reductions."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tunefarm_search.relax.onnx_graph.graph import FLOATS, NUMBERS, Unexportable
from tunefarm_search.relax.onnx_graph.model import onnx_type
from tunefarm_search.relax.onnx_graph.operator_call import OperatorCall, integers, optional_integer
from tunefarm_search.relax.onnx_graph.operators.convolution import back, channels_first

_IMAGES: Final[Mapping[tuple[int, ...], str]] = MappingProxyType({(2, 3): "NCHW", (1, 2): "NHWC"})
"""Layouts of images by the axes of height and width."""


def _axes(call: OperatorCall) -> Sequence[int]:
    kind, given = call.kind(0), call.attributes.axis
    axes = range(kind.dimensions) if given is None else [kind.axis(axis) for axis in integers(given)]
    if not axes:
        raise Unexportable("it reduces no axis")
    return axes


def _reduced(call: OperatorCall, operator: str, name: str, *, keeps: bool) -> str:
    return call.graph.emit(operator, name, call.graph.integers(_axes(call)), keepdims=int(keeps))


def _reduction(operator: str, dtypes: Sequence[str]) -> Callable[[OperatorCall], str]:
    def convert(call: OperatorCall) -> str:
        call.of_types(dtypes, 0)
        return _reduced(call, operator, call.name(0), keeps=bool(call.attributes.keepdims))

    return convert


def _mean(call: OperatorCall) -> str:
    """The mean of images is a pooling, which onnxruntime computes in the layout of its convolutions."""
    call.of_types(FLOATS, 0)
    keeps = bool(call.attributes.keepdims)
    image = _IMAGES.get(tuple(sorted(_axes(call)))) if call.kind(0).dimensions == 4 else None
    if image is None or call.kind(0).dtype != "float32":
        return _reduced(call, "ReduceMean", call.name(0), keeps=keeps)
    pooled = call.graph.emit("GlobalAveragePool", channels_first(call.graph, call.name(0), image))
    if keeps:
        return back(call.graph, pooled, image)
    return call.graph.emit("Reshape", pooled, call.graph.integers(call.result.shape))


def _variance(call: OperatorCall) -> str:
    call.of_types(FLOATS, 0)
    deviation = call.graph.emit("Sub", call.name(0), _reduced(call, "ReduceMean", call.name(0), keeps=True))
    squared = call.graph.emit("Mul", deviation, deviation)
    return _reduced(call, "ReduceMean", squared, keeps=bool(call.attributes.keepdims))


def _standard_deviation(call: OperatorCall) -> str:
    return call.graph.emit("Sqrt", _variance(call))


def _position(operator: str) -> Callable[[OperatorCall], str]:
    def convert(call: OperatorCall) -> str:
        call.of_types(("float32", "float16", "int32"), 0)
        graph, axis = call.graph, optional_integer(call.attributes.axis)
        if axis is None:
            flat = graph.emit("Reshape", call.name(0), graph.integers((-1,)))
            found = graph.emit(operator, flat, axis=0, keepdims=0)
            found = graph.emit("Reshape", found, graph.integers(call.result.shape))
        else:
            keeps = int(bool(call.attributes.keepdims))
            found = graph.emit(operator, call.name(0), axis=call.kind(0).axis(axis), keepdims=keeps)
        wanted = call.result.dtype
        return found if wanted == "int64" else graph.emit("Cast", found, to=onnx_type(wanted))

    return convert


_EXTREMES: Final = (*NUMBERS, "int8", "uint8")
CONVERTERS: Final[Mapping[str, Callable[[OperatorCall], str]]] = MappingProxyType(
    {
        "relax.mean": _mean,
        "relax.sum": _reduction("ReduceSum", NUMBERS),
        "relax.prod": _reduction("ReduceProd", ("float32", "int32", "int64")),
        "relax.max": _reduction("ReduceMax", _EXTREMES),
        "relax.min": _reduction("ReduceMin", _EXTREMES),
        "relax.variance": _variance,
        "relax.std": _standard_deviation,
        "relax.argmax": _position("ArgMax"),
        "relax.argmin": _position("ArgMin"),
    }
)
