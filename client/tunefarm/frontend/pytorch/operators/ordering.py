"""Elements by their order, and where they are."""

from typing import Any

from torch import fx
from tvm import relax

from tunefarm.frontend.pytorch.operators.nodes import argument


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


def minimum_with_position(node: fx.Node, importer: Any) -> Any:
    """The minima along an axis, and their positions."""
    data, axis, keep = importer.env[node.args[0]], node.args[1], argument(node, 2, "keepdim", False)
    emit = importer.block_builder.emit
    return emit(relax.op.min(data, axis, keep)), emit(relax.op.argmin(data, axis, keep))


def maximum_with_position(node: fx.Node, importer: Any) -> Any:
    """The maxima along an axis, and their positions: TVM's converter sorts for them."""
    data, axis, keep = importer.env[node.args[0]], node.args[1], argument(node, 2, "keepdim", False)
    emit = importer.block_builder.emit
    return emit(relax.op.max(data, axis, keep)), emit(relax.op.argmax(data, axis, keep))
