"""The accesses of a block at each of its iterations, in the detail that tiling needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

REDUCTION = 2
"""``IterVar.CommReduce`` in TVM."""


@dataclass(frozen=True)
class BufferAccess:
    """The indexing of one buffer.

    Attributes:
        name: of the buffer.
        extents: shape of the buffer.
        strides: for each dimension of the buffer, the mean step of its index for each iterator of the block.
    """

    name: str
    element_bytes: int
    extents: tuple[int, ...]
    strides: tuple[tuple[float, ...], ...]

    def moves(self, iterator: int) -> bool:
        """Whether an iterator of the block advances the access."""
        return any(steps[iterator] for steps in self.strides)


@dataclass(frozen=True)
class StrideCondition:
    """The condition that a sum of iterators is a multiple of ``divisor``, from a strided output or a dilated input."""

    divisor: int
    iterators: tuple[int, ...]


@dataclass(frozen=True)
class AccessPattern:
    """Iterators and buffers of one block.

    ``spatial`` marks the iterators that are not reductions; an element counts only if all ``conditions`` hold.
    """

    extents: tuple[int, ...]
    spatial: tuple[bool, ...]
    reads: tuple[BufferAccess, ...]
    writes: tuple[BufferAccess, ...]
    conditions: tuple[StrideCondition, ...] = ()

    @property
    def iterations(self) -> float:
        """Number of iterations of the block."""
        count = 1.0
        for extent in self.extents:
            count *= extent
        return count


def access_pattern(module: Any, block_name: str) -> AccessPattern | None:
    """The pattern of a block of ``main`` before any scheduling.

    None if there is no such block, if its loops do not correspond to its iterators, or if extents or indices are not
    integer arithmetic.
    """
    schedule = tvm.s_tir.Schedule(module)
    try:
        block = schedule.get_sblock(block_name, func_name="main")
    except (ValueError, TypeError, RuntimeError):
        return None
    return access_pattern_in(schedule, block)


def access_pattern_in(schedule: Any, variable: Any) -> AccessPattern | None:
    """The same of a block of a schedule, whose trace is left as it is."""
    try:
        block = schedule.get(variable)
        extents = [int(iterator.dom.extent) for iterator in block.iter_vars]
        if _loop_extents(schedule, variable) != extents:
            return None
        variables = [iterator.var for iterator in block.iter_vars]
        reads = tuple(_access(region, variables, extents) for region in block.reads)
        writes = tuple(_access(region, variables, extents) for region in block.writes)
        conditions = tuple(_stride_conditions(getattr(block.body, "value", None), variables))
    except (ValueError, TypeError, RuntimeError):
        return None
    spatial = tuple(int(iterator.iter_type) != REDUCTION for iterator in block.iter_vars)
    return AccessPattern(tuple(extents), spatial, reads, writes, conditions)


def _loop_extents(schedule: Any, block: Any) -> list[int]:
    """Of the loops around a block, from the outermost inwards. ``get_loops`` would become part of the trace."""
    extents: list[int] = []
    place = schedule.get_sref(block).parent
    while place is not None and isinstance(place.stmt, tvm.tirx.For):
        extents.insert(0, int(place.stmt.extent))
        place = place.parent
    return extents


def buffer_written(module: Any, block_name: str) -> str:
    """The name of the first buffer that a block of ``main`` writes; empty if there is no such block."""
    schedule = tvm.s_tir.Schedule(module)
    try:
        return str(schedule.get(schedule.get_sblock(block_name, func_name="main")).writes[0].source.name)
    except (ValueError, TypeError, RuntimeError):
        return ""


def _stride_conditions(
    expression: Any, variables: Sequence[Any], seen: set[int] | None = None
) -> Iterator[StrideCondition]:
    """Conditions anywhere in an expression. ``seen`` contains hashes of the visited parts."""
    seen = set() if seen is None else seen
    if expression is None or hash(expression) in seen:
        return
    seen.add(hash(expression))
    if type(expression).__name__ == "EQ" and type(expression.a).__name__ in {"FloorMod", "Mod"}:
        condition = _stride_condition(expression.a, variables)
        if condition is not None:
            yield condition
        return
    parts = [getattr(expression, name, None) for name in ("a", "b", "condition", "true_value", "false_value", "value")]
    for part in [*parts, *getattr(expression, "args", ())]:
        yield from _stride_conditions(part, variables, seen)


def _stride_condition(remainder: Any, variables: Sequence[Any]) -> StrideCondition | None:
    """None if the remainder does not depend on iterators alone."""
    try:
        divisor = int(_evaluate(remainder.b, (), ()))
        steps = [_evaluate(remainder.a, variables, row) for row in np.eye(len(variables), dtype=np.int64).tolist()]
        start = _evaluate(remainder.a, variables, [0] * len(variables))
        iterators = tuple(number for number, step in enumerate(steps) if (step - start) % divisor)
    except (TypeError, ArithmeticError):
        return None
    return StrideCondition(divisor, iterators) if iterators else None


def _access(region: Any, variables: Sequence[Any], extents: Sequence[int]) -> BufferAccess:
    shape = tuple(int(extent) for extent in region.source.shape)
    strides = []
    for dimension in region.region:
        steps = []
        start = _evaluate(dimension.min, variables, [0] * len(variables))
        for position, extent in enumerate(extents):
            values = [0] * len(variables)
            values[position] = max(extent - 1, 1)
            steps.append(abs(_evaluate(dimension.min, variables, values) - start) / max(extent - 1, 1))
        strides.append(tuple(steps))
    element_bytes = max(1, np.dtype(_numpy_name(str(region.source.dtype))).itemsize)
    return BufferAccess(str(region.source.name), element_bytes, shape, tuple(strides))


def _numpy_name(dtype: str) -> str:
    return {"bfloat16": "float16", "bool": "bool_"}.get(dtype, "int8" if dtype.startswith("float8") else dtype)


def _evaluate(expression: Any, variables: Sequence[Any], values: Sequence[int]) -> float:
    """The value of an index expression.

    Raises:
        TypeError: for anything but integer arithmetic.
    """
    kind = type(expression).__name__
    if kind == "IntImm":
        return float(expression.value)
    if kind in {"Var", "SizeVar"}:
        return float(next((v for x, v in zip(variables, values, strict=True) if x.same_as(expression)), 0))
    if kind == "Cast":
        return _evaluate(expression.value, variables, values)
    if kind not in {"Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Div", "Mod", "Min", "Max"}:
        raise TypeError(f"{kind} in an index")
    first, second = (_evaluate(side, variables, values) for side in (expression.a, expression.b))
    if kind in {"FloorDiv", "Div"}:
        return float(first // second)
    if kind in {"FloorMod", "Mod"}:
        return float(first % second)
    if kind in {"Min", "Max"}:
        return min(first, second) if kind == "Min" else max(first, second)
    return first + second if kind == "Add" else first - second if kind == "Sub" else first * second
