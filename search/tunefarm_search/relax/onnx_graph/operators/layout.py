"""Operators that move elements and compute nothing."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from tunefarm_search.relax.onnx_graph.graph import NUMBERS, Unexportable
from tunefarm_search.relax.onnx_graph.operator_call import Names, OperatorCall, integers, optional_integer

_BEFORE_FIRST: Final = -(2**31)
"""An end of a slice that goes backwards to the first element."""
_PADDINGS: Final = MappingProxyType({"constant": "constant", "reflect": "reflect", "replicate": "edge"})
"""Those that both libraries have."""


def _reshape(call: OperatorCall) -> str:
    return call.graph.emit("Reshape", call.name(0), call.graph.integers(call.result.shape))


def _expand_dims(call: OperatorCall) -> str:
    axes = [call.result.axis(axis) for axis in integers(call.attributes.axis)]
    return call.graph.emit("Unsqueeze", call.name(0), call.graph.integers(sorted(axes)))


def _squeeze(call: OperatorCall) -> str:
    kind, given = call.kind(0), call.attributes.axis
    found = range(kind.dimensions) if given is None else [kind.axis(axis) for axis in integers(given)]
    axes = [axis for axis in found if kind.shape[axis] == 1]
    if kind.dimensions - len(axes) != call.result.dimensions:
        raise Unexportable("it removes an axis of several elements")
    return call.graph.emit("Squeeze", call.name(0), call.graph.integers(axes)) if axes else call.name(0)


def _permute_dims(call: OperatorCall) -> str:
    kind, given = call.kind(0), call.attributes.axes
    axes = list(reversed(range(kind.dimensions))) if given is None else [kind.axis(axis) for axis in integers(given)]
    return call.graph.transposed(call.name(0), axes)


def _broadcast_to(call: OperatorCall) -> str:
    return call.graph.emit("Expand", call.name(0), call.graph.integers(call.result.shape))


def _concat(call: OperatorCall) -> str:
    axis, kinds = optional_integer(call.attributes.axis), call.field_kinds(0)
    if axis is None or len({kind.dtype for kind in kinds}) != 1:
        raise Unexportable("it has no axis, or several element types")
    return call.graph.emit("Concat", *call.fields(0), axis=kinds[0].axis(axis))


def _stack(call: OperatorCall) -> str:
    axis = call.result.axis(optional_integer(call.attributes.axis) or 0)
    at = call.graph.integers((axis,))
    return call.graph.emit("Concat", *(call.graph.emit("Unsqueeze", each, at) for each in call.fields(0)), axis=axis)


def _split(call: OperatorCall) -> Names:
    axis, results = call.kind(0).axis(int(call.attributes.axis)), call.results
    sizes = [kind.shape[axis] for kind in results]
    if sum(sizes) != call.kind(0).shape[axis]:
        raise Unexportable("its parts overlap, or leave elements out")
    names = (call.name(0), call.graph.integers(sizes))
    return call.graph.emit_several("Split", names, len(sizes), axis=axis)


def _strided_slice(call: OperatorCall) -> str:
    kind = call.kind(0)
    axes = [kind.axis(axis) for axis in call.integers(1)]
    strides = call.integers(4) if len(call.call.args) > 4 else (1,) * len(axes)
    starts, ends, shape = [], [], list(kind.shape)
    for axis, start, end, stride in zip(axes, call.integers(2), call.integers(3), strides, strict=True):
        if stride == 0:
            raise Unexportable("a stride is zero")
        indices = range(*slice(start, end, stride).indices(shape[axis]))
        starts.append(indices.start)
        ends.append(indices.stop if indices.stop >= 0 else _BEFORE_FIRST)
        shape[axis] = len(indices)
    if tuple(shape) != call.result.shape:
        raise Unexportable(f"its result has the shape {list(call.result.shape)} instead of {shape}")
    return call.graph.emit(
        "Slice", call.name(0), *(call.graph.integers(each) for each in (starts, ends, axes, strides))
    )


def _flip(call: OperatorCall) -> str:
    kind = call.kind(0)
    each = (-1,), (_BEFORE_FIRST,), (kind.axis(int(call.attributes.axis)),), (-1,)
    return call.graph.emit("Slice", call.name(0), *(call.graph.integers(values) for values in each))


def _tile(call: OperatorCall) -> str:
    repeats, kind = integers(call.attributes.repeats), call.kind(0)
    if len(repeats) > kind.dimensions:
        raise Unexportable("its result has more axes than its input")
    repeats = (1,) * (kind.dimensions - len(repeats)) + repeats
    return call.graph.emit("Tile", call.name(0), call.graph.integers(repeats))


def _repeat(call: OperatorCall) -> str:
    """Each element several times: as a new axis, which is joined with its own."""
    axis, kind, graph = optional_integer(call.attributes.axis), call.kind(0), call.graph
    if axis is None:
        raise Unexportable("it has no axis")
    behind = kind.axis(axis) + 1
    shape = [*kind.shape[:behind], int(call.attributes.repeats), *kind.shape[behind:]]
    widened = graph.emit("Unsqueeze", call.name(0), graph.integers((behind,)))
    return graph.emit(
        "Reshape", graph.emit("Expand", widened, graph.integers(shape)), graph.integers(call.result.shape)
    )


def _pad(call: OperatorCall) -> str:
    call.of_types((*NUMBERS,), 0)
    mode = _PADDINGS.get(str(call.attributes.pad_mode))
    widths = integers(call.attributes.pad_width)
    if mode is None or min(widths) < 0:
        raise Unexportable(f"its mode is {call.attributes.pad_mode}, or it removes elements")
    names = [call.name(0), call.graph.integers((*widths[::2], *widths[1::2]))]
    if mode == "constant":
        names.append(call.graph.scalar(float(call.attributes.pad_value), call.kind(0).dtype))
    return call.graph.emit("Pad", *names, mode=mode)


def _triangle(*, upper: bool) -> Callable[[OperatorCall], str]:
    def convert(call: OperatorCall) -> str:
        call.of_types(NUMBERS, 0)
        offset, kind = int(call.number(1)), call.kind(0)
        if kind.dimensions < 2:
            raise Unexportable("its input has less than two axes")
        kept = np.tri(kind.shape[-2], kind.shape[-1], offset - 1 if upper else offset, dtype=bool)
        zero = call.graph.scalar(0, kind.dtype)
        return call.graph.emit("Where", call.graph.constant(~kept if upper else kept), call.name(0), zero)

    return convert


CONVERTERS: Final[Mapping[str, Callable[[OperatorCall], Names]]] = MappingProxyType(
    {
        "relax.reshape": _reshape,
        "relax.flatten": _reshape,
        "relax.nn.batch_flatten": _reshape,
        "relax.expand_dims": _expand_dims,
        "relax.squeeze": _squeeze,
        "relax.permute_dims": _permute_dims,
        "relax.broadcast_to": _broadcast_to,
        "relax.concat": _concat,
        "relax.stack": _stack,
        "relax.split": _split,
        "relax.strided_slice": _strided_slice,
        "relax.flip": _flip,
        "relax.tile": _tile,
        "relax.repeat": _repeat,
        "relax.nn.pad": _pad,
        "relax.tril": _triangle(upper=False),
        "relax.triu": _triangle(upper=True),
    }
)
