"""Parts of tensors, by slices or by a split: whichever gives fewer functions.

A slice is fused with the operators that read it. Where slices cut a tensor into many parts, such as the steps of an
unrolled recurrent network, each function has another offset, and is a task of its own: an LSTM of fifty steps has
fifty. After a split the functions are equal. A split is a function of its own unless one function reads all parts. The
gates of a step are read by two, and each step has the same few offsets, so that slices save a copy of all gates.
"""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.expressions import BINARY, ELEMENTWISE, extents_of, operator_of

MIN_PARTS: Final = 4
"""Fewer slices are better fused with their readers than copied."""
MAX_PARTS: Final = 64
"""Outputs of one function."""
MAX_PART_ELEMENTS: Final = 1 << 14
"""Larger parts, such as the caches of a decoder's layers, take long to copy."""
MAX_APART: Final = 12
"""Number of larger parts that are not copied: the functions that read them are then tasks of their own."""
MAX_SLICES: Final = 4
"""Parts of a split that are read as slices."""


def split_slices(module: Any) -> Any:
    """Replace slices of one tensor along one axis, each as long as the others, that together are the whole tensor."""
    return _replaced(module, _parts_of, _Splitting)


def slice_splits(module: Any) -> Any:
    """Replace splits into a few parts, each of which one elementwise operator reads, by slices."""
    return _replaced(module, _slices_of, _Slicing)


def _replaced(module: Any, find: Callable[[Any], dict[Any, Any]], mutator_of: Callable[[Any, Any], Any]) -> Any:
    """The module with what ``find`` finds in its functions replaced by a mutator, which gets the module and that."""
    replaced = tvm.IRModule(module.functions, attrs=module.attrs)
    for variable, function in module.functions.items():
        found = find(function) if isinstance(function, relax.Function) else {}
        if found:
            replaced.update_func(variable, mutator_of(replaced, found).visit_expr(function))
    return replaced


class _Slice(NamedTuple):
    source: Any
    axis: int
    begin: int
    extent: int


class _Part(NamedTuple):
    """A slice as the part of a split of ``source`` into ``parts`` along ``axis``."""

    source: Any
    axis: int
    parts: int
    place: int


@mutator
class _Splitting(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any, parts: dict[Any, _Part]) -> None:
        super().__init__(module)
        self._parts = parts
        self._splits: dict[tuple[Any, int, int], Any] = {}

    def visit_call_(self, call: Any) -> Any:
        part = self._parts.get(call)
        if part is None:
            return self.visit_expr_post_order(call)
        key = part.source, part.axis, part.parts
        if key not in self._splits:
            source = self.visit_expr(part.source)
            self._splits[key] = self.builder_.emit(relax.op.split(source, part.parts, part.axis))
        return relax.TupleGetItem(self._splits[key], part.place)


@mutator
class _Slicing(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any, slices: dict[Any, _Slice]) -> None:
        super().__init__(module)
        self._slices = slices

    def visit_tuple_getitem_(self, item: Any) -> Any:
        found = self._slices.get(item)
        if found is None:
            return self.visit_expr_post_order(item)
        end = found.begin + found.extent
        return relax.op.strided_slice(self.visit_expr(found.source), [found.axis], [found.begin], [end])


def _slices_of(function: Any) -> dict[Any, _Slice]:
    """The parts of splits that slices replace."""
    bindings = [each for block in function.body.blocks for each in block.bindings if isinstance(each, relax.VarBinding)]
    readers: dict[Any, list[Any]] = {}
    for value in (*(each.value for each in bindings), function.body.body):
        for variable in relax.analysis.free_vars(value):
            readers.setdefault(variable, []).append(value)
    variables = {each.value: each.var for each in bindings}
    slices: dict[Any, _Slice] = {}
    for binding in bindings:
        items = readers.get(binding.var, [])
        is_split = operator_of(binding.value) == "relax.split" and extents_of(binding.value.args[0]) is not None
        if not is_split or len(items) > MAX_SLICES:
            continue
        read = [readers.get(variables.get(item), []) for item in items if isinstance(item, relax.TupleGetItem)]
        if len(read) == len(items) and all(map(_is_elementwise, read)):
            slices |= {item: _slice_of_part(binding.value, item) for item in items}
    return slices


def _is_elementwise(readers: list[Any]) -> bool:
    return len(readers) == 1 and operator_of(readers[0]) in ELEMENTWISE | BINARY


def _slice_of_part(split: Any, item: Any) -> _Slice:
    source, axis = split.args[0], int(split.attrs.axis) % len(item.ty.shape)
    extents = [int(field.shape[axis]) for field in split.ty.fields[: item.index + 1]]
    return _Slice(source, axis, sum(extents[:-1]), extents[-1])


def _parts_of(function: Any) -> dict[Any, _Part]:
    """The slices of a function's own blocks that a split replaces."""
    parts: dict[Any, _Part] = {}
    blocks = function.body.blocks if isinstance(function.body, relax.SeqExpr) else []
    for block in blocks:
        groups: dict[tuple[Any, int], dict[Any, _Slice]] = {}
        for binding in block.bindings:
            found = _slice_of(binding.value) if isinstance(binding, relax.VarBinding) else None
            if found is not None:
                groups.setdefault((found.source, found.axis), {})[binding.value] = found
        for (source, axis), slices in groups.items():
            whole, extent = int(source.ty.shape[axis]), next(iter(slices.values())).extent
            count = whole // extent
            begins = sorted({each.begin for each in slices.values()})
            is_even = all(each.extent == extent for each in slices.values())
            is_copied = count > MAX_APART or _elements_of(source) <= MAX_PART_ELEMENTS * count
            is_whole = begins == list(range(0, whole, extent))
            if is_even and is_copied and is_whole and MIN_PARTS <= count <= MAX_PARTS:
                for call, each in slices.items():
                    parts[call] = _Part(source, axis, count, each.begin // extent)
    return parts


def _slice_of(value: Any) -> _Slice | None:
    """A slice without gaps along one axis of a tensor of constant shape; None for anything else."""
    if not isinstance(value, relax.Call) or getattr(value.op, "name", "") != "relax.strided_slice":
        return None
    source, *numbers = value.args
    if not isinstance(source, relax.Var):
        return None
    try:
        columns = [[int(each) for each in _elements(number)] for number in numbers]
        shape = [int(extent) for extent in source.ty.shape]
    except (TypeError, ValueError, AttributeError):  # symbolic
        return None
    axes, begins, ends, *strides = columns
    if len(axes) != 1 or strides not in ([], [[1]]):
        return None
    axis = axes[0] % len(shape)
    extent = ends[0] - begins[0]
    return _Slice(source, axis, begins[0], extent) if 0 <= begins[0] < ends[0] <= shape[axis] else None


def _elements(numbers: Any) -> Any:
    fields = numbers.fields if isinstance(numbers, relax.Tuple) else numbers.values
    return [getattr(each, "value", each) for each in fields]


def _elements_of(value: Any) -> int:
    return math.prod(int(extent) for extent in value.ty.shape)
