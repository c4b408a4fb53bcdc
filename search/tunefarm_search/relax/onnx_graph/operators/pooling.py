"""Poolings."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tunefarm_search.relax.onnx_graph.graph import Unexportable
from tunefarm_search.relax.onnx_graph.operator_call import OperatorCall, integers
from tunefarm_search.relax.onnx_graph.operators.convolution import back, channels_first, permutation

_FLOATS: Final = ("float16", "float32")
_SPATIAL: Final = {3: "W", 4: "HW", 5: "DHW"}


def _spatial(call: OperatorCall) -> tuple[list[int], list[int]]:
    """The spatial extents of the input and of the result, in ONNX's order of axes."""
    layout = str(call.attributes.layout)
    if str(call.attributes.out_layout) not in ("", layout):
        raise Unexportable("the result has another layout than the input")
    order = permutation(layout, f"NC{_SPATIAL.get(len(layout), '?')}")[2:]
    return [call.kind(0).shape[at] for at in order], [call.result.shape[at] for at in order]


def _pool(operator: str) -> Callable[[OperatorCall], str]:
    def convert(call: OperatorCall) -> str:
        call.of_types(_FLOATS, 0)
        attributes, is_average = call.attributes, operator == "AveragePool"
        kernel, strides = integers(attributes.pool_size), integers(attributes.strides)
        dilation = integers(attributes.dilation)
        pads, added = _pads(call, kernel, strides, dilation)
        counts = bool(attributes.count_include_pad)
        if is_average and (set(dilation) != {1} or (counts and added)):
            raise Unexportable("it is dilated, or its last window leaves the padding")
        more = {"count_include_pad": int(counts)} if is_average else {"dilations": dilation}
        layout = str(attributes.layout)
        found = call.graph.emit(
            operator,
            channels_first(call.graph, call.name(0), layout),
            kernel_shape=kernel,
            strides=strides,
            pads=pads,
            **more,
        )
        return back(call.graph, found, layout)

    return convert


def _pads(
    call: OperatorCall, kernel: tuple[int, ...], strides: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, ...], bool]:
    """The padding of both sides with which rounding down gives the result's shape, and whether it was increased.

    ``ceil_mode`` has several meanings; more padding behind the last element has one.
    """
    given, dimensions = list(integers(call.attributes.padding)), len(kernel)
    added = False
    for at, (extent, wanted) in enumerate(zip(*_spatial(call), strict=True)):
        window = dilation[at] * (kernel[at] - 1) + 1
        missing = (wanted - 1) * strides[at] + window - (extent + given[at] + given[dimensions + at])
        if missing > 0:
            given[dimensions + at] += missing
            added = True
        if max(given[at], given[dimensions + at]) >= window:
            raise Unexportable("its padding is larger than its windows")
    return tuple(given), added


def _adaptive(call: OperatorCall) -> str:
    call.of_types(_FLOATS, 0)
    found, wanted = _spatial(call)
    if any(extent % size for extent, size in zip(found, wanted, strict=True)):
        raise Unexportable("its windows differ in size")
    layout = str(call.attributes.layout)
    name = channels_first(call.graph, call.name(0), layout)
    if set(wanted) == {1}:
        return back(call.graph, call.graph.emit("GlobalAveragePool", name), layout)
    sizes = tuple(extent // size for extent, size in zip(found, wanted, strict=True))
    return back(call.graph, call.graph.emit("AveragePool", name, kernel_shape=sizes, strides=sizes), layout)


CONVERTERS: Final[Mapping[str, Callable[[OperatorCall], str]]] = MappingProxyType(
    {
        f"relax.nn.{name}{rank}d": converter
        for rank in (1, 2, 3)
        for name, converter in (
            ("max_pool", _pool("MaxPool")),
            ("avg_pool", _pool("AveragePool")),
            ("adaptive_avg_pool", _adaptive),
        )
    }
)
