"""Reading and writing at indexes that are tensors."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jaxlib.mlir.dialects import stablehlo
from tvm import relax, te, tirx

from tunefarm.frontend.expressions.slices import clamped, updated
from tunefarm.frontend.stablehlo.attributes import Unconvertible, integers, shape_of
from tunefarm.frontend.stablehlo.operand import Emitter, Operand
from tunefarm.frontend.stablehlo.operators.elementwise import Converter
from tunefarm.frontend.stablehlo.operators.shaping import sliced

R: Final = relax.op
_COMBINATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "update": lambda _, new: new,
    "add": operator.add,
    "mul": operator.mul,
    "max": tirx.max,
    "min": tirx.min,
}
SCATTERS: Final = {
    "stablehlo.add": "add", "stablehlo.maximum": "max", "stablehlo.minimum": "min", "stablehlo.multiply": "mul",
}  # fmt: skip


def _gather(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    sizes, shape = integers(op, "slice_sizes"), shape_of(op.result)
    offsets, batching = list(numbers.offset_dims), list(numbers.operand_batching_dims)
    of_starts = list(numbers.start_indices_batching_dims)
    dropped = list(numbers.collapsed_slice_dims) + batching
    vector, start_map = numbers.index_vector_dim, list(numbers.start_index_map)

    def compute(data: te.Tensor, starts: te.Tensor) -> te.Tensor:
        extents = [int(each) for each in data.shape]

        def element(*index: Any) -> Any:
            batch = [each for axis, each in enumerate(index) if axis not in offsets]
            window = iter(index[axis] for axis in offsets)
            places = [tirx.IntImm("int64", 0) if axis in dropped else next(window) for axis in range(len(extents))]
            for component, axis in enumerate(start_map):
                at = [*batch[:vector], component, *batch[vector:]] if vector < len(starts.shape) else batch
                places[axis] = places[axis] + clamped(starts(*at), extents[axis] - sizes[axis])
            for axis, of_start in zip(batching, of_starts, strict=True):
                places[axis] = batch[of_start - (of_start > vector)]
            return data(*places)

        return te.compute(shape, element, name="gather")

    whole = [emitter.full(each) for each in operands]
    return [Operand(emitter.computed("gather", compute, *whole), shape, operands[0].dtype)]


def _dynamic_slice(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    data, starts, shape = operands[0], operands[1:], shape_of(op.result)
    if data.scalar is not None:
        return [Operand(data.compact, shape, data.dtype)]
    free = [size - taken for size, taken in zip(data.shape, shape, strict=True)]
    known = [0 if most == 0 else _known_start(each, most) for each, most in zip(starts, free, strict=True)]
    if None not in known:
        begin = [int(each or 0) for each in known]
        end = [first + taken for first, taken in zip(begin, shape, strict=True)]
        return [sliced(emitter, data, begin, end, [1] * len(shape), shape)]

    def compute(x: te.Tensor, *at: te.Tensor) -> te.Tensor:
        return te.compute(
            shape,
            lambda *index: x(*(i + clamped(start(), most) for i, start, most in zip(index, at, free, strict=True))),
            name="dynamic_slice",
        )

    whole = [emitter.full(each) for each in operands]
    return [Operand(emitter.computed("dynamic_slice", compute, *whole), shape, data.dtype)]


def _known_start(start: Operand, greatest: int) -> int | None:
    return None if start.scalar is None else max(0, min(int(start.scalar), greatest))


def _dynamic_update_slice(_op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    data, update, starts = operands[0], operands[1], operands[2:]
    free = [size - taken for size, taken in zip(data.shape, update.shape, strict=True)]
    if not any(free):
        return [update]
    known = [_known_start(each, most) for each, most in zip(starts, free, strict=True)]

    def compute(x: te.Tensor, part: te.Tensor, *at: te.Tensor) -> te.Tensor:
        places = [
            clamped(start(), most) if fixed is None else tirx.IntImm("int64", fixed)
            for start, most, fixed in zip(at, free, known, strict=True)
        ]
        return updated(x, part, places)

    whole = [emitter.full(each) for each in operands]
    return [Operand(emitter.computed("dynamic_update_slice", compute, *whole), data.shape, data.dtype)]


def _scatter(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """One window at one index, or several."""
    if len(operands) != 3:
        raise Unconvertible("Scatter into one tensor.")
    data, indices, _ = operands
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    batch = [size for axis, size in enumerate(indices.shape) if axis != numbers.index_vector_dim]
    kind = _scatter_kind(op)
    if data.dtype == "bool" and kind != "update":
        raise Unconvertible("Scatter truth values by replacing.")
    if math.prod(batch) == 1 and not list(numbers.input_batching_dims):
        return [_window_scattered(numbers, operands, emitter, kind)]
    written = _windows_scattered(numbers, [_as_integers(each, emitter) for each in operands], emitter, kind)
    if data.dtype != "bool":
        return [written]
    return [Operand(emitter.emit(R.astype(written.compact, "bool")), data.shape, "bool")]


def _as_integers(operand: Operand, emitter: Emitter) -> Operand:
    if operand.dtype != "bool":
        return operand
    return Operand(emitter.emit(R.astype(operand.compact, "int8")), operand.shape, "int8")


@dataclass(frozen=True)
class _Windows:
    """Which element of the updates goes to which element of the data.

    Attributes:
        place_in_update: the axis of the updates along which a window extends, of each axis of the data that has one.
        extents: the size of a window along each axis of the data.
        component_of: the component of an index that says where windows begin, of each axis that has one.
    """

    place_in_update: Mapping[int, int]
    extents: tuple[int, ...]
    component_of: Mapping[int, int]


def _windows_of(numbers: Any, data: Operand, updates: Operand) -> _Windows:
    without = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    kept = [axis for axis in range(len(data.shape)) if axis not in without]
    place_in_update = dict(zip(kept, numbers.update_window_dims, strict=True))
    extents = [1 if axis in without else updates.shape[place_in_update[axis]] for axis in range(len(data.shape))]
    components = {axis: place for place, axis in enumerate(numbers.scattered_dims_to_operand_dims)}
    return _Windows(place_in_update, tuple(extents), components)


def _fits(windows: _Windows, starts: Mapping[int, Any], shape: Sequence[int]) -> list[Any]:
    """Whether a window lies in the data: one that sticks out changes nothing."""
    return [
        tirx.all(starts[axis] >= 0, starts[axis] <= shape[axis] - windows.extents[axis])
        for axis in sorted(windows.component_of)
    ]


def _window_scattered(numbers: Any, operands: Sequence[Operand], emitter: Emitter, kind: str) -> Operand:
    """Each element of the result takes part if it is in the window."""
    data, indices, updates = operands
    shape, windows = data.shape, _windows_of(numbers, data, updates)

    def compute(x: te.Tensor, flat: te.Tensor, update: te.Tensor) -> te.Tensor:
        starts = {axis: tirx.IntImm("int64", 0) for axis in range(len(shape))}
        starts.update({axis: flat(place).astype("int64") for axis, place in windows.component_of.items()})
        fits = _fits(windows, starts, shape)

        def element(*index: Any) -> Any:
            offsets = [i - starts[axis] for axis, i in enumerate(index)]
            inside = [tirx.all(each >= 0, each < extent) for each, extent in zip(offsets, windows.extents, strict=True)]
            places = [tirx.IntImm("int64", 0)] * len(update.shape)
            for axis, place in windows.place_in_update.items():
                places[place] = offsets[axis]
            old, new = x(*index), update(*places)
            return tirx.if_then_else(tirx.all(*fits, *inside), _COMBINATIONS[kind](old, new), old)

        return te.compute(shape, element, name="scatter")

    flat = emitter.reshaped(emitter.full(indices), (math.prod(indices.shape),))
    value = emitter.computed("scatter", compute, emitter.full(data), flat, emitter.full(updates))
    return Operand(value, shape, data.dtype)


def _scatter_kind(op: Any) -> str:
    """How a written element combines with the one that is there."""
    block = op.regions[0].blocks[0]
    operators = list(block.operations)
    if len(operators) == 1 and operators[0].operands[0] == block.arguments[1]:
        return "update"
    name = str(operators[0].operation.name)
    if len(operators) == 2 and set(operators[0].operands) == set(block.arguments) and name in SCATTERS:
        return SCATTERS[name]
    raise Unconvertible("Scatter by replacing, adding, multiplying, or by the maximum or minimum.")


def _windows_scattered(numbers: Any, operands: Sequence[Operand], emitter: Emitter, kind: str) -> Operand:
    """By the position of each element, or of each row where windows have whole rows.

    TVM checks no position: windows that stick out go to a row that is cut off.
    """
    data, indices, updates = operands
    windows, rows = _windows_of(numbers, data, updates), data.shape[0]
    depth = max(1, _explicit_axes(windows, data.shape, len(updates.shape)))
    outer = updates.shape[: len(updates.shape) - len(data.shape) + depth]
    vector, batching = numbers.index_vector_dim, list(numbers.input_batching_dims)
    of_batch = [axis for axis in range(len(updates.shape)) if axis not in list(numbers.update_window_dims)]
    of_indices = [axis for axis in range(len(indices.shape)) if axis != vector]

    def compute(at: te.Tensor) -> te.Tensor:
        def element(*index: Any) -> Any:
            *outer_index, axis_of_data = index
            batch = [outer_index[axis] for axis in of_batch]
            starts = {}
            for axis, place in windows.component_of.items():
                start = at(*([*batch[:vector], place, *batch[vector:]] if vector < len(at.shape) else batch))
                starts[axis] = start.astype("int64")
            places = [starts.get(axis, tirx.IntImm("int64", 0)) for axis in range(depth)]
            for axis, place in windows.place_in_update.items():
                if axis < depth:
                    places[axis] = places[axis] + outer_index[place]
            for axis, of_index in zip(batching, numbers.scatter_indices_batching_dims, strict=True):
                places[axis] = batch[of_indices.index(of_index)]
            fits = tirx.all(*_fits(windows, starts, data.shape))
            outside = [tirx.IntImm("int64", rows), *(tirx.IntImm("int64", 0) for _ in places[1:])]
            return _chosen(axis_of_data, [tirx.if_then_else(fits, *pair) for pair in zip(places, outside, strict=True)])

        return te.compute((*outer, depth), element, name="scatter_index")

    places = emitter.computed("scatter_index", compute, emitter.full(indices))
    spare = emitter.emit(relax.op.zeros((1, *data.shape[1:]), data.dtype))
    extended = emitter.emit(R.concat([emitter.full(data), spare], axis=0))
    written = emitter.emit(R.scatter_nd(extended, places, emitter.full(updates), kind))
    return Operand(emitter.emit(R.strided_slice(written, [0], [0], [rows], [1])), data.shape, data.dtype)


def _explicit_axes(windows: _Windows, shape: Sequence[int], update_rank: int) -> int:
    """How many leading axes of the data have positions; along the others, windows are whole and in order."""
    depth = len(shape)
    while depth > 0:
        axis = depth - 1
        is_whole = axis not in windows.component_of and windows.extents[axis] == shape[axis]
        if not is_whole or windows.place_in_update.get(axis) != update_rank - len(shape) + axis:
            break
        depth = axis
    return depth


def _chosen(place: Any, values: Sequence[Any]) -> Any:
    """The value at a place."""
    result = values[-1]
    for number, value in reversed(list(enumerate(values[:-1]))):
        result = tirx.if_then_else(place == number, value, result)
    return result


CONVERTERS: Final[dict[str, Converter]] = {
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
}
