"""Reductions over dimensions and windows, sorting and the greatest elements."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import tvm
from tvm import relax, te, tirx

from tunefarm.frontend.stablehlo.attributes import (
    Unconvertible,
    dtype_of,
    integer,
    integers,
    numpy_dtype,
    pairs,
    shape_of,
)
from tunefarm.frontend.stablehlo.operand import Emitter, Operand
from tunefarm.frontend.stablehlo.operators.elementwise import Converter
from tunefarm.frontend.stablehlo.operators.shaping import padded
from tunefarm.frontend.stablehlo.scalars import evaluate_region

R: Final = relax.op
REDUCERS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "stablehlo.add": (R.sum, R.add),
    "stablehlo.maximum": (R.max, R.maximum),
    "stablehlo.minimum": (R.min, R.minimum),
    "stablehlo.multiply": (R.prod, R.multiply),
}
"""Of each operator, its Relax reduction over dimensions and its function of two tensors."""
WINDOW_REDUCERS: Final[dict[str, Callable[..., Any]]] = {
    "stablehlo.add": te.sum,
    "stablehlo.maximum": te.max,
    "stablehlo.minimum": te.min,
    "stablehlo.multiply": te.comm_reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype), name="prod"),
}


_OF_BOOLEANS: Final = {
    **dict.fromkeys(("stablehlo.or", "stablehlo.maximum", "stablehlo.add"), "stablehlo.maximum"),
    **dict.fromkeys(("stablehlo.and", "stablehlo.minimum", "stablehlo.multiply"), "stablehlo.minimum"),
}
"""What a reduction of booleans is on the numbers 0 and 1."""
_HALVES: Final = frozenset({"float16", "bfloat16"})
_ROUNDED: Final = frozenset({"stablehlo.add", "stablehlo.multiply"})
"""Reductions that round at each step, and are computed in float32 for halves."""
_SORTED_AS: Final = {
    **dict.fromkeys(("bool", "int8", "int16", "uint8", "uint16"), "int32"), "uint32": "int64", "bfloat16": "float32",
}  # fmt: skip
"""Element types that TVM does not sort, and types that hold their numbers."""


def neutral(name: str, dtype: str) -> Any:
    """The number that changes nothing in a reduction by this operator."""
    kind = numpy_dtype(dtype)
    if name in {"stablehlo.add", "stablehlo.multiply"}:
        return np.array(name == "stablehlo.multiply").astype(kind)
    high = name == "stablehlo.minimum"
    if "float" in dtype:
        return np.array(np.inf if high else -np.inf).astype(kind)
    limits = np.iinfo(kind)
    return np.array(limits.max if high else limits.min, kind)


def reducer_of(op: Any) -> str:
    """The operator by which a region combines its two arguments.

    Raises:
        Unconvertible: it is not a single operator on the two.
    """
    block = op.regions[0].blocks[0]
    operators, arguments = list(block.operations), list(block.arguments)
    if len(operators) == 2 and len(arguments) == 2 and set(operators[0].operands) == set(arguments):
        return str(operators[0].operation.name)
    raise Unconvertible("Reduce by one operator: a sum, product, maximum, minimum, conjunction or disjunction.")


def _reduce(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    if len(operands) == 4:
        return _arg_extreme(op, operands, emitter)
    return _of_numbers(_over_axes, op, operands, emitter)


def _over_axes(op: Any, name: str, operands: Sequence[Operand], emitter: Emitter) -> Operand:
    data, initial = operands
    axes = list(integers(op, "dimensions"))
    if name not in REDUCERS:
        raise Unconvertible(f"Reduce {data.dtype} by a sum, product, maximum or minimum instead of {name}.")
    over_axes, of_two = REDUCERS[name]
    value = emitter.emit(over_axes(emitter.full(data), axes)) if axes else emitter.full(data)
    if initial.scalar is None or initial.scalar != neutral(name, data.dtype):
        value = emitter.emit(of_two(value, initial.compact))
    return Operand(value, shape_of(op.results[0]), data.dtype)


def _of_numbers(
    reduced: Callable[[Any, str, Sequence[Operand], Emitter], Operand],
    op: Any,
    operands: Sequence[Operand],
    emitter: Emitter,
) -> list[Operand]:
    """A reduction by one operator; booleans are reduced as the numbers 0 and 1."""
    name = reducer_of(op)
    if operands[0].dtype != "bool":
        return [reduced(op, name, operands, emitter)]
    if name not in _OF_BOOLEANS:
        raise Unconvertible("Reduce booleans by a conjunction or disjunction.")
    found = reduced(op, _OF_BOOLEANS[name], [_number_of(each, emitter) for each in operands], emitter)
    return [Operand(emitter.emit(R.astype(found.compact, "bool")), found.shape, "bool")]


def _number_of(truth: Operand, emitter: Emitter) -> Operand:
    if truth.scalar is not None:
        return Operand(relax.const(int(truth.scalar), "int8"), truth.shape, "int8")
    return Operand(emitter.emit(R.astype(truth.compact, "int8")), truth.shape, "int8")


def _arg_extreme(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """The greatest or smallest element and its index: a reduction of pairs, whose region says which."""
    data, index = operands[:2]
    axes = integers(op, "dimensions")
    is_boolean = data.dtype == "bool"
    greatest = _prefers(op.regions[0], 1 if is_boolean else 2)
    if len(axes) != 1 or greatest is None or not _counts_along(index, axes[0]):
        raise Unconvertible("Reduce several tensors at once by argmax or argmin along one dimension only.")
    whole = emitter.emit(R.astype(emitter.full(data), "int8")) if is_boolean else emitter.full(data)
    extreme, place = (R.max, R.argmax) if greatest else (R.min, R.argmin)
    value = emitter.emit(extreme(whole, [axes[0]]))
    if is_boolean:
        value = emitter.emit(R.astype(value, "bool"))
    found = emitter.emit(R.astype(emitter.emit(place(whole, axes[0])), index.dtype))
    shape = shape_of(op.results[0])
    return [Operand(value, shape, data.dtype), Operand(found, shape, index.dtype)]


def _prefers(region: Any, greatest: int) -> bool | None:
    """Whether a region of pairs returns the greater one, and of equal ones that with the lower index.

    True if it is the greatest, False if it is the smallest, None if it is something else. Compilers write these
    regions in several ways, so this evaluates them, for elements up to ``greatest``.
    """
    low, high = greatest - 1, greatest
    samples = [
        *((low, 0, high, 1), (high, 0, low, 1), (low, 0, low, 1)),
        *((low, 1, low, 0), (high, 1, low, 0), (low, 1, high, 0)),
    ]

    def expected(sign: int) -> list[tuple[int, int]]:
        return [max((a, i), (b, j), key=lambda pair: (sign * pair[0], -pair[1])) for a, i, b, j in samples]

    results = [evaluate_region(region, *sample) for sample in samples]
    for sign in (1, -1):
        if results == expected(sign):
            return sign == 1
    return None


def _counts_along(index: Operand, axis: int) -> bool:
    """Whether it is an iota along this axis."""
    if not isinstance(index.compact, tvm.ir.GenericConst):
        return False
    sizes = tuple(size if each == axis else 1 for each, size in enumerate(index.shape))
    return index.compact_shape == sizes and bool(
        (index.compact.value.numpy().reshape(-1) == np.arange(sizes[axis])).all()
    )


def _reduce_window(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    return _of_numbers(_over_windows, op, operands, emitter)


def _over_windows(op: Any, name: str, operands: Sequence[Operand], emitter: Emitter) -> Operand:
    if len(operands) != 2 or name not in WINDOW_REDUCERS:
        raise Unconvertible("Reduce windows of one tensor by a sum, product, maximum or minimum.")
    data, initial = operands
    rank = len(data.shape)
    window = integers(op, "window_dimensions")
    strides = integers(op, "window_strides") or (1,) * rank
    spacing = integers(op, "window_dilations") or (1,) * rank
    gaps = [each - 1 for each in integers(op, "base_dilations") or (1,) * rank]
    padding = pairs(op, "padding", rank)
    rest = relax.const(neutral(name, data.dtype), data.dtype)
    whole = padded(emitter, emitter.full(data), rest, [low for low, _ in padding], [high for _, high in padding], gaps)
    shape = shape_of(op.results[0])
    kind = name.removeprefix("stablehlo.")
    is_wide = data.dtype not in _HALVES or name not in _ROUNDED
    value = emitter.computed(
        f"window_{kind}",
        lambda x: _windows(x, shape, window, strides, spacing, WINDOW_REDUCERS[name]),
        whole if is_wide else emitter.emit(R.astype(whole, "float32")),
    )
    if not is_wide:
        value = emitter.emit(R.astype(value, data.dtype))
    if initial.scalar is None or initial.scalar != neutral(name, data.dtype):
        value = emitter.emit(REDUCERS[name][1](value, initial.compact))
    return Operand(value, shape, data.dtype)


def _windows(
    x: te.Tensor,
    shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    spacing: Sequence[int],
    combine: Callable[..., Any],
) -> te.Tensor:
    inner = [te.reduce_axis((0, size), f"r{axis}") if size > 1 else None for axis, size in enumerate(window)]

    def element(*index: Any) -> Any:
        places = [
            i * stride if r is None else i * stride + r * space
            for i, stride, r, space in zip(index, strides, inner, spacing, strict=True)
        ]
        axes = [r for r in inner if r is not None]
        return combine(x(*places), axis=axes) if axes else x(*places)

    return te.compute(shape, element, name="window")


def _sort(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """By one or more operands, the first one before all; the others follow them."""
    axis, whole = integer(op, "dimension"), [emitter.full(each) for each in operands]
    keys = _keys(op, len(operands))
    sortable = [_sortable(each, operand.dtype, emitter) for each, operand in zip(whole, operands, strict=True)]
    if len(operands) == 1:
        value = emitter.emit(R.sort(sortable[0], axis, keys[0]))
        value = value if sortable[0] is whole[0] else emitter.emit(R.astype(value, operands[0].dtype))
        return [Operand(value, operands[0].shape, operands[0].dtype)]
    order = None
    for key, descending in reversed(list(zip(sortable, keys, strict=False))):  # sorting is stable
        moved = key if order is None else emitter.emit(R.gather_elements(key, order, axis))
        inner = emitter.emit(R.argsort(moved, axis, descending, "int32"))
        order = inner if order is None else emitter.emit(R.gather_elements(order, inner, axis))
    results = []
    for operand, value in zip(operands, whole, strict=True):
        if _counts_along(operand, axis):
            moved = order if operand.dtype == "int32" else emitter.emit(R.astype(order, operand.dtype))
        else:
            moved = emitter.emit(R.gather_elements(value, order, axis))
        results.append(Operand(moved, operand.shape, operand.dtype))
    return results


def _sortable(value: Any, dtype: str, emitter: Emitter) -> Any:
    """In a type that TVM sorts."""
    return emitter.emit(R.astype(value, _SORTED_AS[dtype])) if dtype in _SORTED_AS else value


def _keys(op: Any, count: int) -> list[bool]:
    """Of each operand by which a comparator orders, one after another: whether from the greatest down."""
    keys: list[bool] = []
    for place in range(count):
        answers = tuple(_ordered(op, count, place, pair) for pair in ((0, 1), (1, 0)))
        if answers == (True, False):
            keys.append(False)
        elif answers == (False, True):
            keys.append(True)
        else:
            break
    equal = _ordered(op, count, len(keys) - 1, (0, 0))
    if not keys or equal is not False:
        raise Unconvertible("Sort by keys, each ascending or descending.")
    return keys


def _ordered(op: Any, count: int, place: int, pair: tuple[int, int]) -> bool | None:
    """Whether a comparator puts the first of two before the other, which are equal in the operands before ``place``.

    None if that depends on operands behind it.
    """
    outcomes = set()
    for rest in ((0, 1), (1, 0)):
        pairs = [(0, 0)] * place + [pair] + [rest] * (count - place - 1)
        outcome = evaluate_region(op.regions[0], *(number for each in pairs for number in each))
        outcomes.add(None if outcome is None else bool(outcome[0]))
    return outcomes.pop() if len(outcomes) == 1 else None


def greatest(
    data: Operand, count: int, shapes: Sequence[Any], emitter: Emitter, axis: int = -1, *, is_least: bool = False
) -> list[Operand]:
    """The ``count`` greatest or least elements along a dimension and their indexes, as ``chlo.top_k`` has them."""
    value = emitter.full(data)
    pair = emitter.emit(R.topk(value, k=count, axis=axis, ret_type="both", largest=not is_least, dtype="int32"))
    return [
        emitter.operand(relax.TupleGetItem(pair, place), shape_of(result), dtype_of(result))
        for place, result in enumerate(shapes)
    ]


def approximate_top_k(op: Any, comparator: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """XLA's custom call of this name, without approximation.

    Raises:
        Unconvertible: its indexes do not count from 0, or it returns more than the elements asked for.
    """
    config = op.attributes["mhlo.backend_config"]
    axis = int(config["reduction_dim"].value)
    if not config["aggregate_to_topk"].value or not _counts_along(operands[1], axis):
        raise Unconvertible("Use jax.lax.top_k, or approx_max_k with aggregate_to_topk.")
    is_least = evaluate_region(comparator.regions[0], 0, 1, 0, 1) == (True,)
    return greatest(operands[0], int(config["top_k"].value), op.results, emitter, axis, is_least=is_least)


def _top_k(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    return greatest(operands[0], integer(op, "k"), op.results, emitter)


CONVERTERS: Final[dict[str, Converter]] = {
    "chlo.top_k": _top_k,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.sort": _sort,
}
