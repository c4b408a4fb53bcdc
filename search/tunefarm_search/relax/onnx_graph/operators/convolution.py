"""Convolutions, and transposed ones."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tunefarm_search.relax.onnx_graph.graph import Graph, Unexportable
from tunefarm_search.relax.onnx_graph.operator_call import OperatorCall, integers

_FLOATS: Final = ("float16", "float32")
_SPATIAL: Final = {3: "W", 4: "HW", 5: "DHW"}


def permutation(found: str, wanted: str) -> list[int]:
    """The axes of the layout ``found`` in the order of ``wanted``.

    Raises:
        Unexportable: the layouts have different axes, as blocked ones do.
    """
    if sorted(found) != sorted(wanted):
        raise Unexportable(f"the layout is {found}")
    return [found.index(axis) for axis in wanted]


def channels_first(graph: Graph, name: str, layout: str) -> str:
    """``name`` of a layout such as NHWC in ONNX's order."""
    return graph.transposed(name, permutation(layout, f"NC{_SPATIAL.get(len(layout), '?')}"))


def back(graph: Graph, name: str, layout: str) -> str:
    """A result in ONNX's order in the layout ``layout``."""
    return graph.transposed(name, permutation(f"NC{_SPATIAL.get(len(layout), '?')}", layout))


def _convolution(call: OperatorCall, operator: str, kernel_layout: str, **more: tuple[int, ...]) -> str:
    attributes = call.attributes
    call.of_one_type(_FLOATS, 0, 1)
    layout, out_layout = str(attributes.data_layout), str(attributes.out_layout)
    if out_layout not in ("", layout):
        raise Unexportable(f"the result has the layout {out_layout}, and the input {layout}")
    if call.result.dtype != call.kind(0).dtype:
        raise Unexportable(f"{call.kind(0).dtype} becomes {call.result.dtype}")
    spatial = _SPATIAL.get(len(layout), "?")
    weight = call.graph.transposed(
        call.name(1), permutation(str(attributes.kernel_layout), f"{kernel_layout}{spatial}")
    )
    kernel = [call.kind(1).shape[str(attributes.kernel_layout).index(axis)] for axis in spatial]
    found = call.graph.emit(
        operator,
        channels_first(call.graph, call.name(0), layout),
        weight,
        strides=integers(attributes.strides),
        pads=integers(attributes.padding),
        dilations=integers(attributes.dilation),
        group=int(attributes.groups),
        kernel_shape=tuple(kernel),
        **more,
    )
    call.graph.channels[found] = call.result.shape[layout.index("C")]
    return back(call.graph, found, layout)


def _conv(call: OperatorCall) -> str:
    return _convolution(call, "Conv", "OI")


def _conv_transpose(call: OperatorCall) -> str:
    return _convolution(call, "ConvTranspose", "IO", output_padding=integers(call.attributes.output_padding))


CONVERTERS: Final[Mapping[str, Callable[[OperatorCall], str]]] = MappingProxyType(
    {
        **{f"relax.nn.conv{rank}d": _conv for rank in (1, 2, 3)},
        **{f"relax.nn.conv{rank}d_transpose": _conv_transpose for rank in (1, 2, 3)},
    }
)
