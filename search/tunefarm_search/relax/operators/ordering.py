"""Sorting and the largest elements as TIR functions that call no others.

For CPUs, TVM has a kernel look up its runtime's sort by name, which a compiled model must not: such a lookup reaches
any function of the process.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tvm import relax, te
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tunefarm_search.relax.expressions import extents_of, operator_of, rewritten

_SORTS: Final = frozenset({"relax.sort", "relax.argsort", "relax.topk", "relax.median"})
_MAX_INSERTED: Final = 32
"""So many first elements are kept in order while the others pass, one by one."""
_MAX_SELECTED: Final = 1 / 4
"""Up to this part of the elements, the first ones are selected before they are sorted; for more, all are sorted."""

_IsBefore = Callable[[Any, Any], Any]


def with_own_sorts(module: Any) -> Any:
    """Replace ``sort``, ``argsort``, ``topk`` and ``median`` of tensors with constant shapes in a module's functions.

    Equal elements keep their order. A NaN is neither before nor behind any other element.
    """
    return rewritten(module, _Sorting(module))


@mutator
class _Sorting(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        rewrite = {"relax.topk": self._top, "relax.median": self._median}.get(operator_of(visited), self._sorted)
        shape = extents_of(visited.args[0]) if operator_of(visited) in _SORTS else None
        return visited if not shape or 0 in shape else rewrite(visited, shape)

    def _sorted(self, call: Any, shape: tuple[int, ...]) -> Any:
        """Result of ``sort`` or ``argsort``."""
        returns_values = operator_of(call) == "relax.sort"
        axis = int(call.attrs.axis) % len(shape)
        dtype = "int32" if returns_values else str(call.attrs.dtype)
        values, positions = self._first(call.args[0], axis, shape[axis], bool(call.attrs.descending), dtype)
        return values if returns_values else positions

    def _top(self, call: Any, shape: tuple[int, ...]) -> Any:
        axis, wanted = int(call.attrs.axis) % len(shape), str(call.attrs.ret_type)
        given = int(call.attrs.k)
        count = min(given, shape[axis]) if given > 0 else shape[axis]
        values, positions = self._first(call.args[0], axis, count, bool(call.attrs.largest), str(call.attrs.dtype))
        both = {"values": values, "indices": positions}
        return both[wanted] if wanted in both else relax.Tuple([values, positions])

    def _median(self, call: Any, shape: tuple[int, ...]) -> Any:
        """The lower one of two medians, with its position where the operator has an axis."""
        data, axes, rank = call.args[0], call.attrs.axis, len(shape)
        if not axes:
            data, shape = self._emit(relax.op.reshape(data, (-1,))), (math.prod(shape),)
        axis = int(axes[0]) % len(shape) if axes else 0
        middle = (shape[axis] - 1) // 2
        found = self._first(data, axis, middle + 1, False, "int64")
        medians = [self._emit(relax.op.strided_slice(each, [axis], [middle], [middle + 1])) for each in found]
        if not call.attrs.keepdims:
            medians = [self._emit(relax.op.squeeze(each, [axis])) for each in medians]
        elif not axes:
            medians = [self._emit(relax.op.reshape(each, [1] * rank)) for each in medians]
        return relax.Tuple(medians) if axes else medians[0]

    def _first(self, data: Any, axis: int, count: int, descending: bool, dtype: str) -> tuple[Any, Any]:
        """The first ``count`` elements of an axis in their order, and their positions."""
        extents = list(extents_of(data) or ())
        order = [*(each for each in range(len(extents)) if each != axis), axis]
        moved = self._emit(relax.op.permute_dims(data, order))
        rows = self._emit(relax.op.reshape(moved, (-1, extents[axis])))
        positions = self._te(first_positions, rows, count, descending, dtype)
        both = self._te(_taken, rows, positions), positions
        kept = [*(extents[each] for each in order[:-1]), count]
        back = [order.index(each) for each in range(len(extents))]
        values, positions = (
            self._emit(relax.op.permute_dims(self._emit(relax.op.reshape(each, kept)), back)) for each in both
        )
        return values, positions

    def _emit(self, value: Any) -> Any:
        return self.builder_.emit(value)

    def _te(self, function: Callable[..., te.Tensor], *arguments: Any) -> Any:
        name = function.__name__.strip("_")
        return self._emit(self.builder_.call_te(function, *arguments, primfunc_name_hint=name))


def _taken(rows: te.Tensor, positions: te.Tensor) -> te.Tensor:
    """The elements of each row at its ``positions``."""
    return te.compute(positions.shape, lambda row, place: rows[row, positions[row, place]], name="taken")


def first_positions(rows: te.Tensor, count: int, descending: bool, dtype: str) -> te.Tensor:
    """Where in each row of shape [rows, length] its first ``count`` elements are, in their order; [rows, count]."""
    found = _way_for(count, int(rows.shape[1]))(rows, count, _before(descending))
    return te.compute((rows.shape[0], count), lambda row, place: found[row, place].astype(dtype), name="positions")


def _way_for(count: int, length: int) -> Callable[[te.Tensor, int, _IsBefore], te.Tensor]:
    if count <= _MAX_INSERTED:
        return _inserted
    return _selected if count <= _MAX_SELECTED * length else _merged


def _before(descending: bool) -> _IsBefore:
    return (lambda one, other: one > other) if descending else (lambda one, other: one < other)


def _variable(dtype: str) -> Any:
    """A variable of a program, as the only element of a buffer."""
    return T.buffer_proxy(T.decl_buffer([1], dtype, scope="local"))


def _inserted(rows: te.Tensor, count: int, is_before: _IsBefore) -> te.Tensor:
    """Insert each element that is before the last one of those that were found so far."""
    number, length = map(int, rows.shape)

    def program(given: Any, kept: Any) -> Any:
        with IRBuilder() as builder:
            data, found = T.buffer_proxy(given), T.buffer_proxy(kept)
            with T.parallel(0, number) as row:
                free = _variable("int32")
                with T.serial(0, count) as place:
                    found[row, place] = place
                with T.serial(0, length) as current:
                    this, last = data[row, current], data[row, found[row, count - 1]]
                    with T.If(T.Or(current < count, is_before(this, last))), T.Then():
                        free[0] = T.min(current, count - 1)
                        with T.serial(0, count - 1) as passed:
                            place = count - 1 - passed
                            earlier = found[row, place - 1]
                            is_next = T.And(free[0] == place, is_before(this, data[row, earlier]))
                            with T.If(is_next), T.Then():
                                found[row, place] = earlier
                                free[0] = place - 1
                        found[row, free[0]] = current
            return builder.get()

    return te.extern(
        (number, count), [rows], lambda given, kept: program(given[0], kept[0]), name="inserted", dtype="int32"
    )


@dataclass(frozen=True)
class _Places:
    """Positions in each row of a buffer, from one place to another."""

    buffer: Any
    begin: Any
    end: Any


class _Merge:
    """Merges ordered positions in a row of ``data``; equal elements of the first positions come first."""

    def __init__(self, data: Any, row: Any, is_before: _IsBefore) -> None:
        self._data, self._row, self._is_before = data, row, is_before
        self._left, self._right, self._is_left = _variable("int32"), _variable("int32"), _variable("bool")

    def sort(self, source: Any, target: Any, length: Any, passes: int) -> Any:
        """Order the first ``length`` of at most 2^passes positions; returns the buffer, of the two, that has them."""
        for width in (1 << each for each in range(passes)):
            with T.serial(0, (length + (2 * width - 1)) // (2 * width)) as pair:
                begin = pair * (2 * width)
                middle, end = T.min(begin + width, length), T.min(begin + 2 * width, length)
                self.join(_Places(source, begin, middle), _Places(source, middle, end), _Places(target, begin, end))
            source, target = target, source
        return source

    def join(self, first: "_Places", second: "_Places", target: "_Places") -> None:
        """Fill ``target`` with the first positions of two ordered runs."""
        row, left, right, is_left = self._row, self._left, self._right, self._is_left
        left[0], right[0] = first.begin, second.begin
        with T.serial(0, target.end - target.begin) as step:
            is_left[0] = left[0] < first.end
            with T.If(T.And(is_left[0], right[0] < second.end)), T.Then():
                one, other = first.buffer[row, left[0]], second.buffer[row, right[0]]
                is_left[0] = T.Not(self._is_before(self._data[row, other], self._data[row, one]))
            with T.If(is_left[0]):
                with T.Then():
                    target.buffer[row, target.begin + step] = first.buffer[row, left[0]]
                    left[0] = left[0] + 1
                with T.Else():
                    target.buffer[row, target.begin + step] = second.buffer[row, right[0]]
                    right[0] = right[0] + 1


def _selected(rows: te.Tensor, count: int, is_before: _IsBefore) -> te.Tensor:
    """Collect what is before the last of the first ``count`` elements so far, and merge it with these when it is much.

    Few elements are collected where they are in no order. In the worst order, all are, which takes about as long
    as ``_merged``.
    """
    number, length = map(int, rows.shape)
    blocks, passes = math.ceil(length / count), math.ceil(math.log2(2 * count))

    def program(given: Any, buffers: Any) -> Any:
        with IRBuilder() as builder:
            data, (found, merged, one, other) = T.buffer_proxy(given), map(T.buffer_proxy, buffers)
            with T.parallel(0, number) as row:
                merge, collected = _Merge(data, row, is_before), _variable("int32")
                collected[0] = 0
                found[row, count - 1] = 0
                with T.serial(0, blocks) as block:
                    begin = block * count
                    with T.serial(0, T.min(length - begin, count)) as place:
                        this, last = data[row, begin + place], data[row, found[row, count - 1]]
                        with T.If(T.Or(block == 0, is_before(this, last))), T.Then():
                            one[row, collected[0]] = begin + place
                            collected[0] = collected[0] + 1
                    is_first, is_last = block == 0, block == blocks - 1
                    with T.If(T.Or(T.Or(is_first, is_last), collected[0] > count)), T.Then():
                        ordered = merge.sort(one, other, collected[0], passes)
                        known = T.if_then_else(is_first, 0, count)
                        both = _Places(found, 0, known), _Places(ordered, 0, collected[0])
                        merge.join(*both, _Places(merged, 0, count))
                        with T.serial(0, count) as place:
                            found[row, place] = merged[row, place]
                        collected[0] = 0
            return builder.get()

    return te.extern(
        [(number, count)] * 2 + [(number, 2 * count)] * 2,
        [rows],
        lambda given, kept: program(given[0], kept),
        name="selected",
        dtype=["int32"] * 4,
    )[0]


def _merged(rows: te.Tensor, _count: int, is_before: _IsBefore) -> te.Tensor:
    """Sort all elements: merge neighbouring runs of one, then two, then four elements and so on."""
    number, length = map(int, rows.shape)
    passes = math.ceil(math.log2(max(length, 2)))

    def program(given: Any, one: Any, other: Any) -> Any:
        with IRBuilder() as builder:
            data, (source, target) = T.buffer_proxy(given), (T.buffer_proxy(one), T.buffer_proxy(other))
            with T.parallel(0, number) as row:
                merge = _Merge(data, row, is_before)
                with T.serial(0, length) as place:
                    source[row, place] = place
                merge.sort(source, target, length, passes)
            return builder.get()

    orders = te.extern(
        [(number, length)] * 2,
        [rows],
        lambda given, kept: program(given[0], *kept),
        name="merged",
        dtype=["int32"] * 2,
    )
    return orders[passes % 2]
