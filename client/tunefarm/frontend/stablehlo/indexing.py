"""Reading and writing at indexes that are tensors."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from jaxlib.mlir.dialects import stablehlo
from tvm import relax, te, tirx

from tunefarm.frontend.stablehlo.attributes import Unconvertible, integers, shape_of
from tunefarm.frontend.stablehlo.elementwise import Converter
from tunefarm.frontend.stablehlo.operand import Emitter, Operand
from tunefarm.frontend.stablehlo.shaping import sliced

R: Final = relax.op
_SCATTER_ADVICE: Final = (
    "Scatter one window, or whole rows at indexes of the leading dimensions, as x.at[i].set(row) does."
)
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


def _clamped(start: Any, greatest: int) -> Any:
    """A start index moved into its tensor, as StableHLO has it; a constant where there is one place only."""
    if greatest == 0:
        return tirx.IntImm("int64", 0)
    return tirx.max(tirx.min(start.astype("int64"), tirx.IntImm("int64", greatest)), tirx.IntImm("int64", 0))


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
                places[axis] = places[axis] + _clamped(starts(*at), extents[axis] - sizes[axis])
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
            lambda *index: x(*(i + _clamped(start(), most) for i, start, most in zip(index, at, free, strict=True))),
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
        def element(*index: Any) -> Any:
            places = [
                i - (_clamped(start(), most) if fixed is None else tirx.IntImm("int64", fixed))
                for i, start, most, fixed in zip(index, at, free, known, strict=True)
            ]
            inside = [
                tirx.all(place >= 0, place < taken)
                for place, taken, most in zip(places, update.shape, free, strict=True)
                if most
            ]
            return tirx.if_then_else(tirx.all(*inside), part(*places), x(*index))

        return te.compute(data.shape, element, name="dynamic_update_slice")

    whole = [emitter.full(each) for each in operands]
    return [Operand(emitter.computed("dynamic_update_slice", compute, *whole), data.shape, data.dtype)]


def _scatter(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """One window at an index, or whole rows at indexes of the leading dimensions, as ``x.at[i, j].set(rows)`` does."""
    if len(operands) != 3 or operands[0].dtype == "bool":
        raise Unconvertible(_SCATTER_ADVICE)
    data, indices, updates = operands
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    depth, vector = len(numbers.scattered_dims_to_operand_dims), numbers.index_vector_dim
    batch = [size for axis, size in enumerate(indices.shape) if axis != vector]
    if math.prod(batch) == 1 and not list(numbers.input_batching_dims):
        return [_window_scattered(op, numbers, operands, emitter)]
    leading = list(range(depth))
    regular = (
        list(numbers.scattered_dims_to_operand_dims) == list(numbers.inserted_window_dims) == leading
        and not list(numbers.input_batching_dims)
        and list(numbers.update_window_dims) == list(range(len(batch), len(updates.shape)))
        and updates.shape[len(batch) :] == data.shape[depth:]
        and vector >= len(indices.shape) - 1
    )
    if not regular:
        raise Unconvertible(_SCATTER_ADVICE)
    return [_rows_scattered(emitter, data, indices, updates, depth, _scatter_kind(op))]


def _window_scattered(op: Any, numbers: Any, operands: Sequence[Operand], emitter: Emitter) -> Operand:
    """Each element of the result takes part if it is in the window; a window that sticks out changes nothing."""
    data, indices, updates = operands
    kind, shape = _scatter_kind(op), data.shape
    windows, inserted = list(numbers.update_window_dims), list(numbers.inserted_window_dims)
    kept = [axis for axis in range(len(shape)) if axis not in inserted]
    place_in_update = dict(zip(kept, windows, strict=True))
    extents = [updates.shape[place_in_update[axis]] if axis in place_in_update else 1 for axis in range(len(shape))]
    component_of = {axis: place for place, axis in enumerate(numbers.scattered_dims_to_operand_dims)}

    def compute(x: te.Tensor, flat: te.Tensor, update: te.Tensor) -> te.Tensor:
        starts = [
            flat(component_of[axis]).astype("int64") if axis in component_of else tirx.IntImm("int64", 0)
            for axis in range(len(shape))
        ]
        fits = [
            tirx.all(starts[axis] >= 0, starts[axis] <= shape[axis] - extents[axis]) for axis in sorted(component_of)
        ]

        def element(*index: Any) -> Any:
            offsets = [i - start for i, start in zip(index, starts, strict=True)]
            inside = [tirx.all(offset >= 0, offset < extent) for offset, extent in zip(offsets, extents, strict=True)]
            places = [tirx.IntImm("int64", 0)] * len(update.shape)
            for axis, place in place_in_update.items():
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


def _rows_scattered(
    emitter: Emitter, data: Operand, indices: Operand, updates: Operand, depth: int, kind: str
) -> Operand:
    """StableHLO drops what is written outside, TVM checks no index: such updates go to a row that is cut off."""
    rows = data.shape[0]
    batch = updates.shape[: len(updates.shape) - (len(data.shape) - depth)]

    def compute(at: te.Tensor) -> te.Tensor:
        def element(*index: Any) -> Any:
            *batched, component = index
            starts = [at(*batched, each) for each in range(depth)]
            inside = tirx.all(
                *(tirx.all(start >= 0, start < size) for start, size in zip(starts, data.shape, strict=False))
            )
            outside = tirx.if_then_else(component == 0, tirx.IntImm("int64", rows), tirx.IntImm("int64", 0))
            return tirx.if_then_else(inside, at(*index).astype("int64"), outside)

        return te.compute((*batch, depth), element, name="scatter_index")

    flat = emitter.reshaped(emitter.full(indices), (*batch, depth))
    places = emitter.computed("scatter_index", compute, flat)
    spare = emitter.emit(relax.op.zeros((1, *data.shape[1:]), data.dtype))
    extended = emitter.emit(R.concat([emitter.full(data), spare], axis=0))
    written = emitter.emit(R.scatter_nd(extended, places, emitter.full(updates), kind))
    return Operand(emitter.emit(R.strided_slice(written, [0], [0], [rows], [1])), data.shape, data.dtype)


CONVERTERS: Final[dict[str, Converter]] = {
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
}
