"""Converters of norms and of variances."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import fx
from tvm import relax

from tunefarm.frontend.pytorch.operators.nodes import argument, as_kind, scaled, value_of

_NORMED_BY_TVM: Final = frozenset({torch.float32, torch.float16})
"""Element types of TVM's norms."""


def group_norm(node: fx.Node, importer: Any) -> Any:
    """The norm without its statistics; TVM's converter requires a weight and a bias."""
    data, groups, epsilon = importer.env[node.args[0]], node.args[6], node.args[7]
    emit, rank = importer.block_builder.emit, data.ty.ndim
    if value_of(node.args[0]).dtype not in _NORMED_BY_TVM:
        wide, shape = _wide(node), [int(extent) for extent in value_of(node.args[0]).shape]
        grouped = emit(relax.op.reshape(as_kind(wide, data, emit), [shape[0], groups, -1]))
        mean, variance = (emit(of(grouped, [2], True)) for of in (relax.op.mean, relax.op.variance))
        normal = emit(relax.op.reshape(_normalized(grouped, mean, variance, (None, None), epsilon, emit), shape))
        return (_shifted(normal, [_of_channels(each, wide, rank, importer) for each in node.args[1:3]], emit),)
    channels, kind = [int(value_of(node.args[0]).shape[1])], str(data.ty.dtype)
    given = (None if each is None else importer.env[each] for each in node.args[1:3])
    weight, bias = (
        emit(relax.op.full(channels, relax.const(value, kind), kind)) if each is None else each
        for each, value in zip(given, (1, 0), strict=True)
    )
    return (emit(relax.op.nn.group_norm(data, weight, bias, groups, 1, list(range(2, rank)), epsilon)),)


def batch_norm(node: fx.Node, importer: Any) -> Any:
    """The norm without its statistics. TVM adds epsilon in float32, whatever the element type is."""
    if value_of(node.args[0]).dtype == torch.float32:
        return (importer._batch_norm_legit_no_training(node),)  # noqa: SLF001 - the converter in TVM's table
    wide, emit, rank = _wide(node), importer.block_builder.emit, value_of(node.args[0]).dim()
    weight, bias, mean, variance = (_of_channels(each, wide, rank, importer) for each in node.args[1:5])
    data = as_kind(wide, importer.env[node.args[0]], emit)
    return (_normalized(data, mean, variance, (weight, bias), node.args[6], emit),)


def layer_norm(node: fx.Node, importer: Any) -> Any:
    """The norm without its statistics."""
    if value_of(node.args[0]).dtype in _NORMED_BY_TVM:
        return (importer._native_layer_norm(node),)  # noqa: SLF001 - the converter in TVM's table
    wide, emit = _wide(node), importer.block_builder.emit
    data, axes = as_kind(wide, importer.env[node.args[0]], emit), list(range(-len(node.args[1]), 0))
    mean, variance = emit(relax.op.mean(data, axes, True)), emit(relax.op.variance(data, axes, True))
    given = [None if each is None else as_kind(wide, importer.env[each], emit) for each in node.args[2:4]]
    return (_normalized(data, mean, variance, given, node.args[4], emit),)


def _wide(node: fx.Node) -> str:
    """The element type in which torch computes norms."""
    return "float64" if value_of(node.args[0]).dtype == torch.float64 else "float32"


def _of_channels(given: fx.Node | None, kind: str, rank: int, importer: Any) -> Any:
    """A tensor with one element for each channel, the second of ``rank`` axes; None stays None."""
    if given is None:
        return None
    emit = importer.block_builder.emit
    return emit(relax.op.reshape(as_kind(kind, importer.env[given], emit), [1, -1, *[1] * (rank - 2)]))


def _normalized(
    data: Any, mean: Any, variance: Any, given: Sequence[Any], epsilon: float, emit: Callable[[Any], Any]
) -> Any:
    """The data with mean 0 and variance 1, times the weight and plus the bias, if they are given."""
    deviation = emit(relax.op.sqrt(emit(relax.op.add(variance, relax.const(epsilon, str(data.ty.dtype))))))
    return _shifted(emit(relax.op.divide(emit(relax.op.subtract(data, mean)), deviation)), given, emit)


def _shifted(result: Any, given: Sequence[Any], emit: Callable[[Any], Any]) -> Any:
    for combine, each in zip((relax.op.multiply, relax.op.add), given, strict=True):
        result = result if each is None else emit(combine(result, each))
    return result


def variance_and_mean(node: fx.Node, importer: Any) -> Any:
    """``var_mean`` and ``std_mean``, with ``correction`` elements less."""
    data, axes, keep = importer.env[node.args[0]], argument(node, 1, "dim"), argument(node, 3, "keepdim", False)
    shape, emit = value_of(node.args[0]).shape, importer.block_builder.emit
    axes = list(range(len(shape))) if not axes else [int(axis) for axis in axes]
    count = math.prod(int(shape[axis]) for axis in axes)
    rest = count - argument(node, 2, "correction", 1)
    variance = scaled(emit(relax.op.variance(data, axes, keep)), count / rest if rest > 0 else math.nan, emit)
    return variance, emit(relax.op.mean(data, axes, keep))
