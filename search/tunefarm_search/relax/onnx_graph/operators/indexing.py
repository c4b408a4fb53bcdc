"""Gathers and scatters."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tunefarm_search.relax.onnx_graph.graph import NUMBERS, Unexportable
from tunefarm_search.relax.onnx_graph.operator_call import OperatorCall, optional_integer

_INDEXES: Final = ("int32", "int64")
_REDUCTIONS: Final = MappingProxyType({"update": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"})


def _take(call: OperatorCall) -> str:
    call.of_types(_INDEXES, 1)
    kind, axis, mode = call.kind(0), optional_integer(call.attributes.axis), str(call.attributes.mode)
    if axis is None and kind.dimensions != 1:
        raise Unexportable("it has no axis")
    at = kind.axis(axis or 0)
    return call.graph.emit("Gather", call.name(0), _within(call, kind.shape[at], mode), axis=at)


def _within(call: OperatorCall, extent: int, mode: str) -> str:
    """The indexes, in the range that ONNX defines."""
    name, known = call.name(1), call.array(1)
    if known is not None:
        if known.min() < 0 or known.max() >= extent:
            raise Unexportable("an index is out of bounds")
        return name
    if mode == "fast":
        return name
    if mode != "clip":
        raise Unexportable(f"its mode is {mode}")
    limits = [call.graph.scalar(limit, call.kind(1).dtype) for limit in (0, extent - 1)]
    return call.graph.emit("Clip", name, *limits)


def _gather_elements(call: OperatorCall) -> str:
    call.of_types(_INDEXES, 1)
    axis = call.kind(0).axis(int(call.attributes.axis))
    return call.graph.emit("GatherElements", call.name(0), call.name(1), axis=axis)


def _gather_nd(call: OperatorCall) -> str:
    call.of_types(("int64",), 1)
    return call.graph.emit("GatherND", call.name(0), call.name(1), batch_dims=int(call.attributes.batch_dims))


def _reduction(call: OperatorCall) -> str:
    call.of_one_type(NUMBERS, 0, 2)
    found = _REDUCTIONS.get(str(call.attributes.reduction))
    if found is None:
        raise Unexportable(f"its reduction is {call.attributes.reduction}")
    return found


def _scatter_elements(call: OperatorCall) -> str:
    call.of_types(_INDEXES, 1)
    names, axis = [call.name(at) for at in range(3)], call.kind(0).axis(int(call.attributes.axis))
    return call.graph.emit("ScatterElements", *names, axis=axis, reduction=_reduction(call))


def _scatter_nd(call: OperatorCall) -> str:
    call.of_types(("int64",), 1)
    names = [call.name(at) for at in range(3)]
    return call.graph.emit("ScatterND", *names, reduction=_reduction(call))


CONVERTERS: Final[Mapping[str, Callable[[OperatorCall], str]]] = MappingProxyType(
    {
        "relax.take": _take,
        "relax.gather_elements": _gather_elements,
        "relax.gather_nd": _gather_nd,
        "relax.scatter_elements": _scatter_elements,
        "relax.scatter_nd": _scatter_nd,
    }
)
