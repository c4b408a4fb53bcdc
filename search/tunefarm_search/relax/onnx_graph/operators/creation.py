"""Tensors of known contents, as constants."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from tunefarm_search.relax.constants import numpy_dtype
from tunefarm_search.relax.onnx_graph.operator_call import OperatorCall


def _filled(call: OperatorCall, value: float) -> str:
    """One element that is broadcast, since the contents may be large."""
    kind = call.result
    element = call.graph.constant(np.full((1,) * kind.dimensions, value, numpy_dtype(kind.dtype)))
    return call.graph.emit("Expand", element, call.graph.integers(kind.shape)) if set(kind.shape) - {1} else element


def _full(call: OperatorCall) -> str:
    return _filled(call, call.number(1))


def _of(value: float) -> Callable[[OperatorCall], str]:
    return lambda call: _filled(call, value)


def _arange(call: OperatorCall) -> str:
    kind = call.result
    values = np.arange(call.number(0), call.number(1), call.number(2))
    return call.graph.constant(values.astype(numpy_dtype(kind.dtype)).reshape(kind.shape))


CONVERTERS: Final[Mapping[str, Callable[[OperatorCall], str]]] = MappingProxyType(
    {
        "relax.full": _full,
        "relax.full_like": _full,
        "relax.zeros": _of(0),
        "relax.zeros_like": _of(0),
        "relax.ones": _of(1),
        "relax.ones_like": _of(1),
        "relax.arange": _arange,
    }
)
