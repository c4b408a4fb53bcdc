"""Converters of operators that read or write by position.

TVM's own read outside of the data for positions that count from the end.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import fx
from tvm import relax

from tunefarm.frontend.expressions.along_axis import with_rows
from tunefarm.frontend.pytorch.operators.nodes import Convert, argument, value_of

_OUTSIDE: Final = "it shows memory beside the tensor"


def select(node: fx.Node, importer: Any) -> Any:
    """``x[:, 3]``: one position of an axis, as a slice, which fuses with its neighbours."""
    data, axis, position = importer.env[node.args[0]], node.args[1], node.args[2]
    shape = value_of(node.args[0]).shape
    axis, position = axis % len(shape), position % int(shape[axis])
    emit = importer.block_builder.emit
    return emit(relax.op.squeeze(emit(relax.op.strided_slice(data, [axis], [position], [position + 1])), [axis]))


def index(node: fx.Node, importer: Any) -> Any:
    """``x[:, i]``, ``x[i, j]`` and the like, as one gather.

    Raises:
        ValueError: an index is a mask, so that the size of the result depends on data.
    """
    data, shape = importer.env[node.args[0]], _extents(node.args[0])
    used, position = _joined_position(node, shape, importer)
    emit = importer.block_builder.emit
    if len(used) == 1:
        return emit(relax.op.take(data, position, axis=used[0]))
    others = [axis for axis in range(len(shape)) if axis not in used]
    turned = emit(relax.op.permute_dims(data, [*used, *others]))
    joined = emit(relax.op.reshape(turned, [-1, *[shape[axis] for axis in others]]))
    taken = emit(relax.op.take(joined, position, axis=0))
    order = _order_of_result(used, position.ty.ndim, taken.ty.ndim)
    return taken if order == sorted(order) else emit(relax.op.permute_dims(taken, order))


def index_put(node: fx.Node, importer: Any) -> Any:
    """``x[:, i] = values``.

    One position of an axis, or few, such as those of a step in a cache, become a selection, which every schedule can
    fuse and split. Others become a scatter.

    Raises:
        ValueError: an index is a mask, and each position has a value of its own.
    """
    masked = _masked_axis(node)
    if masked is not None:
        return _put_by_mask(node, importer, masked)
    used = _used_axes(node)
    if len(used) == 1 and value_of(node.args[1][used[0]]).numel() == 1 and not argument(node, 3, "accumulate", False):
        return _put_one(node, importer, used[0])
    shape = _extents(node.args[0])
    if _are_few_rows(node, used, shape):
        return _put_rows(node, importer, used[0], shape)
    emit = importer.block_builder.emit
    axes, position = _joined_position(node, shape, importer)
    others = [axis for axis in range(len(shape)) if axis not in axes]
    turn = [*axes, *others]
    turned = emit(relax.op.permute_dims(importer.env[node.args[0]], turn))
    rest = [shape[axis] for axis in others]
    joined = emit(relax.op.reshape(turned, [-1, *rest]))
    reduction = "add" if argument(node, 3, "accumulate", False) else "update"
    at = emit(relax.op.expand_dims(position, -1))
    values = _values_in_order(node, importer, axes, [int(extent) for extent in position.ty.shape], rest)
    written = emit(relax.op.scatter_nd(joined, at, values, reduction))
    unfolded = emit(relax.op.reshape(written, [shape[axis] for axis in turn]))
    return emit(relax.op.permute_dims(unfolded, [turn.index(axis) for axis in range(len(shape))]))


def strided(node: fx.Node, importer: Any) -> Any:
    """``as_strided``: elements of a tensor's memory, by constant positions."""
    emit = importer.block_builder.emit
    flat = emit(relax.op.reshape(importer.env[node.args[0]], [-1]))
    return emit(relax.op.take(flat, relax.const(_places(node, node.args[1:], torch.as_strided).numpy()), axis=0))


def written_through(view: Callable[..., torch.Tensor]) -> Convert:
    """A copy with other values in place of those that a view shows, such as a diagonal."""

    def convert(node: fx.Node, importer: Any) -> Any:
        data, values, emit = *(importer.env[each] for each in node.args[:2]), importer.block_builder.emit
        places = _places(node, node.args[2:], view).reshape(-1)
        count = int(value_of(node).numel())
        is_shown, source = torch.zeros(count, dtype=torch.bool), torch.zeros(count, dtype=torch.int64)
        is_shown[places], source[places] = True, torch.arange(len(places))
        taken = emit(relax.op.take(emit(relax.op.reshape(values, [-1])), relax.const(source.numpy()), axis=0))
        flat = emit(relax.op.reshape(data, [-1]))
        result = emit(relax.op.where(relax.const(is_shown.numpy()), taken, flat))
        return emit(relax.op.reshape(result, data.ty.shape))

    return convert


def _places(node: fx.Node, arguments: Sequence[Any], view: Callable[..., torch.Tensor]) -> torch.Tensor:
    """The positions, in the order of its axes, that a view shows of a tensor, which lies in memory as in torch.

    Raises:
        ValueError: the view shows memory that is not the tensor's.
    """
    given = value_of(node.args[0])
    reach = sum(max(extent - 1, 0) * step for extent, step in zip(given.shape, given.stride(), strict=True))
    memory = torch.full((given.storage_offset() + reach + 1,), -1)
    whole = memory.as_strided(given.shape, given.stride(), given.storage_offset())
    whole.copy_(torch.arange(given.numel()).reshape(given.shape))
    try:
        places = view(whole, *arguments, **node.kwargs)
    except RuntimeError as error:
        raise ValueError(_OUTSIDE) from error
    if places.numel() and int(places.min()) < 0:
        raise ValueError(_OUTSIDE)
    return places


def _masked_axis(node: fx.Node) -> int | None:
    """The first axis of the mask that is the only index, if all its positions get the same values."""
    used = [axis for axis, each in enumerate(node.args[1]) if each is not None]
    if len(used) != 1 or value_of(node.args[1][used[0]]).dtype != torch.bool or argument(node, 3, "accumulate", False):
        return None
    rest = value_of(node).dim() - used[0] - value_of(node.args[1][used[0]]).dim()
    given = value_of(node.args[2]).shape
    return used[0] if len(given) <= rest or given[-1 - rest] == 1 else None


def _put_by_mask(node: fx.Node, importer: Any, axis: int) -> Any:
    """``x[:, mask] = values``, where the mask may lack the last axes of the data."""
    shape, mask = _extents(node), node.args[1][axis]
    covered = value_of(mask).dim()
    rest = len(shape) - axis - covered
    emit = importer.block_builder.emit
    chosen = emit(relax.op.reshape(importer.env[mask], [1] * axis + shape[axis : axis + covered] + [1] * rest))
    given = _extents(node.args[2])
    aligned = [1] * (axis + 1 + rest - len(given)) + given  # one axis of extent 1 stands for the positions
    value = emit(relax.op.reshape(importer.env[node.args[2]], aligned[:axis] + [1] * covered + aligned[axis + 1 :]))
    return emit(relax.op.where(chosen, value, importer.env[node.args[0]]))


def _put_one(node: fx.Node, importer: Any, axis: int) -> Any:
    shape = _extents(node)
    extent = shape[axis]
    emit = importer.block_builder.emit
    position = _wrapped(importer.env[node.args[1][axis]], extent, importer)
    dtype = str(position.ty.dtype)
    bounds = (relax.prim_value(0), relax.prim_value(extent), relax.prim_value(1))
    positions = emit(relax.op.arange(*bounds, dtype))
    chosen = emit(relax.op.equal(positions, emit(relax.op.reshape(position, [1]))))
    chosen = emit(relax.op.reshape(chosen, [extent if each == axis else 1 for each in range(len(shape))]))
    # The dimensions of the index, all of extent 1, give way to one.
    dimensions = value_of(node.args[1][axis]).dim()
    given = _extents(node.args[2])
    aligned = [*[1] * (len(shape) - 1 + dimensions - len(given)), *given]
    values = emit(relax.op.reshape(importer.env[node.args[2]], [*aligned[:axis], 1, *aligned[axis + dimensions :]]))
    return emit(relax.op.where(chosen, emit(relax.op.broadcast_to(values, shape)), importer.env[node.args[0]]))


def _are_few_rows(node: fx.Node, axes: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether to look for each row among the positions costs less than to write all elements."""
    if len(axes) != 1 or value_of(node.args[1][axes[0]]).dim() != 1 or argument(node, 3, "accumulate", False):
        return False
    return int(value_of(node.args[1][axes[0]]).numel()) * shape[axes[0]] <= math.prod(shape)


def _put_rows(node: fx.Node, importer: Any, axis: int, shape: Sequence[int]) -> Any:
    data, builder = importer.env[node.args[0]], importer.block_builder
    positions = _wrapped(importer.env[node.args[1][axis]], shape[axis], importer)
    of_rows = [*shape[:axis], int(positions.ty.shape[0]), *shape[axis + 1 :]]
    rows = builder.emit(relax.op.broadcast_to(importer.env[node.args[2]], of_rows))
    return with_rows(data, positions, rows, axis, builder)


def _values_in_order(
    node: fx.Node, importer: Any, axes: Sequence[int], positions: Sequence[int], rest: Sequence[int]
) -> Any:
    """The values broadcast, with the dimensions of the index first."""
    order = _order_of_result(axes, len(positions), len(positions) + len(rest))
    whole = [*positions, *rest]
    emit = importer.block_builder.emit
    values = emit(relax.op.broadcast_to(importer.env[node.args[2]], [whole[axis] for axis in order]))
    return emit(relax.op.permute_dims(values, [order.index(axis) for axis in range(len(whole))]))


def _order_of_result(axes: Sequence[int], positions: int, dimensions: int) -> list[int]:
    """Where torch puts the dimensions of an index that a gather puts first.

    Those of neighbouring axes stand where the axes stood; others stay first.
    """
    first = axes[0] if list(axes) == list(range(axes[0], axes[-1] + 1)) else 0
    return [*range(positions, positions + first), *range(positions), *range(positions + first, dimensions)]


def _joined_position(node: fx.Node, shape: Sequence[int], importer: Any) -> tuple[list[int], Any]:
    """The indexed axes, and the position in these axes joined into one."""
    axes = _used_axes(node)
    tensors = [_wrapped(importer.env[node.args[1][axis]], shape[axis], importer) for axis in axes]
    emit = importer.block_builder.emit
    position = tensors[0]
    for axis, tensor in zip(axes[1:], tensors[1:], strict=True):
        scaled = emit(relax.op.multiply(position, relax.const(shape[axis], str(position.ty.dtype))))
        position = emit(relax.op.add(scaled, tensor))
    return axes, position


def _used_axes(node: fx.Node) -> list[int]:
    indices = node.args[1]
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    if any(value_of(indices[axis]).dtype in (torch.bool, torch.uint8) for axis in axes):
        raise ValueError(f"{node.name} selects by a mask, and the size of the result depends on data")
    return axes


def _wrapped(position: Any, extent: int, importer: Any) -> Any:
    """The position, from the start of the axis also where it counts from the end."""
    dtype = str(position.ty.dtype)
    emit = importer.block_builder.emit
    below = emit(relax.op.less(position, relax.const(0, dtype)))
    beyond = emit(relax.op.add(position, relax.const(extent, dtype)))
    return emit(relax.op.where(below, beyond, position))


def _extents(node: Any) -> list[int]:
    return [int(extent) for extent in value_of(node).shape]
