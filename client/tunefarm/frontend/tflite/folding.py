"""Computes the sizes that a TFLite model derives from the shapes of its tensors, which the file fixes."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tflite

from tunefarm.frontend.tflite.movement import options_of

Numbers = npt.NDArray[np.integer[Any]]


def folded(code: str, operator: Any, operands: Sequence[Numbers]) -> Numbers | None:
    """The result of an operator on constants; None for other operators, and where they do more than is known here."""
    rule = _RULES.get(code)
    return None if rule is None else rule(operator, operands)


def _strided(operator: Any, operands: Sequence[Numbers]) -> Numbers | None:
    options, (data, *bounds) = options_of(operator, tflite.StridedSliceOptions), operands
    if data.ndim != 1 or options.EllipsisMask() or options.NewAxisMask():
        return None
    begin, end, step = (int(each.reshape(())) for each in bounds)
    if options.ShrinkAxisMask():
        return np.asarray(data[begin])
    return data[None if options.BeginMask() else begin : None if options.EndMask() else end : step]


def _sliced(operator: Any, operands: Sequence[Numbers]) -> Numbers:
    del operator
    data, begins, sizes = operands
    bounds = zip(begins.tolist(), sizes.tolist(), strict=True)
    return data[tuple(slice(begin, None if size < 0 else begin + size) for begin, size in bounds)]


def _packed(operator: Any, operands: Sequence[Numbers]) -> Numbers:
    options = options_of(operator, tflite.PackOptions)
    return np.stack(list(operands), options.Axis())


def _joined(operator: Any, operands: Sequence[Numbers]) -> Numbers:
    options = options_of(operator, tflite.ConcatenationOptions)
    return np.concatenate([np.atleast_1d(each) for each in operands], options.Axis())


def _taken(operator: Any, operands: Sequence[Numbers]) -> Numbers | None:
    options, (data, places) = options_of(operator, tflite.GatherOptions), operands
    return None if options.BatchDims() else np.take(data, places.astype(np.int64), options.Axis())


def _multiplied(operator: Any, operands: Sequence[Numbers]) -> Numbers:
    del operator
    data, axes = operands
    return np.asarray(np.prod(data, tuple(axes.reshape(-1).tolist())))


def _by(function: Callable[..., Any]) -> Callable[[Any, Sequence[Numbers]], Numbers]:
    return lambda _operator, operands: np.asarray(function(*operands))


_RULES: Final[Mapping[str, Callable[[Any, Sequence[Numbers]], Numbers | None]]] = MappingProxyType({
    "ADD": _by(np.add), "CAST": _by(np.asarray), "CONCATENATION": _joined, "EXPAND_DIMS": lambda _, given: given[0],
    "FLOOR_DIV": _by(np.floor_divide), "GATHER": _taken, "MAXIMUM": _by(np.maximum), "MINIMUM": _by(np.minimum),
    "MUL": _by(np.multiply), "PACK": _packed, "REDUCE_PROD": _multiplied, "RESHAPE": lambda _, given: given[0],
    "SLICE": _sliced, "SQUEEZE": lambda _, given: given[0], "STRIDED_SLICE": _strided, "SUB": _by(np.subtract),
})  # fmt: skip
"""Results have the type and the shape that the file states."""
