"""Resizing of images."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from tunefarm_search.relax.onnx_graph.graph import Unexportable
from tunefarm_search.relax.onnx_graph.operator_call import OperatorCall
from tunefarm_search.relax.onnx_graph.operators.convolution import back, channels_first, permutation

_METHODS: Final = MappingProxyType({"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"})
_COORDINATES: Final = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
_ROUNDINGS: Final = MappingProxyType(
    {
        "round": "round_prefer_ceil",
        "round_prefer_floor": "round_prefer_floor",
        "round_prefer_ceil": "round_prefer_ceil",
        "floor": "floor",
        "ceil": "ceil",
    }
)
_NEAR: Final = 1e-3


def _resize2d(call: OperatorCall) -> str:
    attributes, graph = call.attributes, call.graph
    call.of_types(("float32",), 0)
    method, coordinates = _METHODS.get(str(attributes.method)), str(attributes.coordinate_transformation_mode)
    if method is None or coordinates not in _COORDINATES or call.result.dtype != call.kind(0).dtype:
        raise Unexportable(f"the method is {attributes.method}, of coordinates {coordinates}")
    layout = str(attributes.layout)
    order = permutation(layout, "NCHW")
    more: dict[str, str | float | int] = {}
    if method == "nearest":
        more["nearest_mode"] = _rounding(call, order[2:], coordinates)
    if method == "cubic":
        more = {"cubic_coeff_a": float(attributes.cubic_alpha), "exclude_outside": int(attributes.cubic_exclude)}
    sizes = graph.integers([call.result.shape[axis] for axis in order])
    name = channels_first(graph, call.name(0), layout)
    found = graph.emit("Resize", name, "", "", sizes, mode=method, coordinate_transformation_mode=coordinates, **more)
    return back(graph, found, layout)


def _rounding(call: OperatorCall, spatial: list[int], coordinates: str) -> str:
    """ONNX's rounding, if no coordinate is so near to a boundary that the libraries could choose another element."""
    given = str(call.attributes.rounding_method) or ("round" if coordinates == "align_corners" else "floor")
    rounding = _ROUNDINGS.get(given)
    if rounding is None:
        raise Unexportable(f"it rounds by {given}")
    for axis in spatial:
        extent, wanted = call.kind(0).shape[axis], call.result.shape[axis]
        if wanted % extent == 0 and coordinates == "asymmetric" and rounding == "floor":
            continue
        found = _coordinates(extent, wanted, coordinates)
        offset = 0.5 if rounding.startswith("round") else 0.0
        distance = np.abs(found - offset - np.round(found - offset))
        if np.any((distance < _NEAR) & (found > _NEAR) & (found < extent - 1 - _NEAR)):
            raise Unexportable("a coordinate is between two elements")
    return rounding


def _coordinates(extent: int, wanted: int, kind: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    at = np.arange(wanted, dtype=np.float64)
    if kind == "align_corners":
        return at * (extent - 1) / max(wanted - 1, 1)
    if kind == "asymmetric":
        return at * extent / wanted
    return (at + 0.5) * extent / wanted - 0.5


CONVERTERS: Final[Mapping[str, Callable[[OperatorCall], str]]] = MappingProxyType({"relax.image.resize2d": _resize2d})
