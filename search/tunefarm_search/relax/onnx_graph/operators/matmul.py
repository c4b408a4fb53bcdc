"""Products of matrices, and attention."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from tunefarm_search.relax.constants import numpy_dtype
from tunefarm_search.relax.onnx_graph.graph import FLOATS, Unexportable
from tunefarm_search.relax.onnx_graph.operator_call import OperatorCall, optional_integer

_HEADS_FIRST: Final = (0, 2, 1, 3)


def _matmul(call: OperatorCall) -> str:
    call.of_one_type(FLOATS, 0, 1)
    if call.result.dtype != call.kind(0).dtype:
        raise Unexportable(f"{call.kind(0).dtype} becomes {call.result.dtype}")
    return call.graph.emit("MatMul", call.name(0), call.name(1))


def _attention(call: OperatorCall) -> str:
    """Queries, keys and values are of [batch, length, heads, width]."""
    call.of_one_type(FLOATS, *range(len(call.call.args)))
    if optional_integer(call.attributes.window_size) is not None:
        raise Unexportable("it has a window")
    graph, query, key = call.graph, call.kind(0), call.kind(1)
    if call.kind(2).shape[2] != query.shape[2] or key.shape[2] != query.shape[2]:
        raise Unexportable("keys have other heads than queries")
    scale = call.attributes.scale
    factor = 1 / math.sqrt(query.shape[3]) if scale is None else float(scale)
    scores = graph.emit(
        "MatMul",
        graph.transposed(call.name(0), _HEADS_FIRST),
        graph.transposed(call.name(1), (0, 2, 3, 1)),
    )
    scores = graph.emit("Mul", scores, graph.scalar(factor, query.dtype))
    if len(call.call.args) == 4:
        scores = graph.emit("Add", scores, call.name(3))
    mask = _causal_mask(call.attributes.causal_mask, query.shape[1], key.shape[1])
    if mask is not None:
        scores = graph.emit("Add", scores, graph.constant(mask.astype(numpy_dtype(query.dtype))))
    weighted = graph.emit(
        "MatMul", graph.emit("Softmax", scores, axis=-1), graph.transposed(call.name(2), _HEADS_FIRST)
    )
    return graph.transposed(weighted, _HEADS_FIRST)


def _causal_mask(kind: object, queries: int, keys: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None":
    if kind is None:
        return None
    offsets = {"TopLeft": 0, "BottomRight": abs(queries - keys)}
    if str(kind) not in offsets:
        raise Unexportable(f"its mask is {kind}")
    permitted = np.tri(queries, keys, offsets[str(kind)], dtype=bool)
    return np.where(permitted, 0.0, -np.inf)


CONVERTERS: Final[Mapping[str, Callable[[OperatorCall], str]]] = MappingProxyType(
    {"relax.matmul": _matmul, "relax.nn.attention": _attention, "relax.nn.attention_bias": _attention}
)
