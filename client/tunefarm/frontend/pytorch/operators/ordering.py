"""Elements by their order, and where they are."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import fx
from tvm import relax

from tunefarm.frontend.pytorch.operators.nodes import MAX_PAIRED, Convert, argument, as_kind


def largest(node: fx.Node, importer: Any) -> Any:
    """The largest or smallest elements, sorted also where torch need not sort them."""
    data, count, axis = importer.env[node.args[0]], node.args[1], argument(node, 2, "dim", -1)
    is_largest = argument(node, 3, "largest", True)
    return importer.block_builder.emit(relax.op.topk(data, count, axis, "both", is_largest, "int64"))


def at_rank(node: fx.Node, importer: Any) -> Any:
    """The element that has a place in the sorted order of an axis, and where it is."""
    data, rank, axis = importer.env[node.args[0]], node.args[1], argument(node, 2, "dim", -1)
    emit, keep = importer.block_builder.emit, argument(node, 3, "keepdim", False)
    order = emit(relax.op.argsort(data, axis, False, "int64"))
    chosen = emit(relax.op.strided_slice(order, [axis], [rank - 1], [rank]))
    values = emit(relax.op.gather_elements(data, chosen, axis))
    return (values, chosen) if keep else tuple(emit(relax.op.squeeze(each, [axis])) for each in (values, chosen))


def with_position(reduce: Callable[..., Any], search: Callable[..., Any]) -> Convert:
    """The minima or maxima along an axis, and their positions: TVM's converter sorts for them.

    Those of truth values are taken of bytes: TVM has none of booleans.
    """

    def convert(node: fx.Node, importer: Any) -> Any:
        given, axis, keep = importer.env[node.args[0]], node.args[1], argument(node, 2, "keepdim", False)
        emit, kind = importer.block_builder.emit, str(given.ty.dtype)
        data = as_kind("int8", given, emit) if kind == "bool" else given
        return as_kind(kind, emit(reduce(data, axis, keep)), emit), emit(search(data, axis, keep))

    return convert


def position(search: Callable[..., Any]) -> Convert:
    """Where an extreme is along an axis, or among all elements; a single number is the first of one."""

    def convert(node: fx.Node, importer: Any) -> Any:
        data, axis = importer.env[node.args[0]], argument(node, 1, "dim")
        if not data.ty.ndim:
            return relax.const(0, "int64")
        return importer.block_builder.emit(search(data, axis, argument(node, 2, "keepdim", False)))

    return convert


def running(extreme: Callable[..., Any]) -> Convert:
    """The largest or smallest of the elements up to each one of an axis, and the last position that has it."""

    def convert(node: fx.Node, importer: Any) -> Any:
        data, emit = importer.env[node.args[0]], importer.block_builder.emit
        axis = argument(node, 1, "dim") % data.ty.ndim
        values = _accumulated(data, axis, extreme, emit)
        positions = _positions(data, axis)
        reached = emit(relax.op.where(emit(relax.op.equal(data, values)), positions, relax.const(0, "int64")))
        return values, _accumulated(reached, axis, relax.op.maximum, emit)

    return convert


def most_frequent(node: fx.Node, importer: Any) -> Any:
    """The smallest of the elements that are most frequent along an axis, and their last position, by all pairs."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    axis, keep = argument(node, 1, "dim", -1) % data.ty.ndim, argument(node, 2, "keepdim", False)
    length = int(data.ty.shape[axis])
    if length > MAX_PAIRED:
        raise ValueError(f"it has {length} elements along its axis, more than {MAX_PAIRED}")
    pairs = (emit(relax.op.expand_dims(data, each)) for each in (axis, axis + 1))
    counts = emit(relax.op.sum(emit(relax.op.astype(emit(relax.op.equal(*pairs)), "int64")), axis))
    is_mode = emit(relax.op.equal(counts, emit(relax.op.max(counts, axis, True))))
    values = emit(relax.op.where(is_mode, data, emit(relax.op.max(data, axis, True))))
    value = emit(relax.op.min(values, axis, True))
    places = emit(relax.op.where(emit(relax.op.equal(data, value)), _positions(data, axis), relax.const(0, "int64")))
    found = value, emit(relax.op.max(places, axis, True))
    return found if keep else tuple(emit(relax.op.squeeze(each, [axis])) for each in found)


def _accumulated(data: Any, axis: int, combine: Callable[..., Any], emit: Callable[[Any], Any]) -> Any:
    """Elements combined with all before them: with those 1, 2, 4 and so on before."""
    length, step = int(data.ty.shape[axis]), 1
    while step < length:
        bounds = ((0, step), (step, length), (0, length - step))
        first, later, before = (emit(relax.op.strided_slice(data, [axis], [at], [end])) for at, end in bounds)
        data = emit(relax.op.concat([first, emit(combine(later, before))], axis))
        step *= 2
    return data


def _positions(data: Any, axis: int) -> Any:
    """The position along an axis, of a shape that broadcasts to that of the data."""
    shape = [-1 if each == axis else 1 for each in range(data.ty.ndim)]
    return relax.const(np.arange(int(data.ty.shape[axis])).reshape(shape), "int64")
