"""Proofs about the range of an index from the loops and conditions around the access."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final, TypeAlias

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Range, TensorLoad
from tvm.sym import Analyzer

from tunefarm_search.validation.permitted_nodes import ARITHMETIC

_MAX_POINTS: Final = 128
"""Maximum number of corners of the loops' ranges that are tried as witnesses."""


@dataclass(frozen=True)
class Span:
    """A variable that takes ``extent`` values, beginning with ``first``."""

    variable: Any
    first: Any
    extent: Any


@dataclass(frozen=True)
class Known:
    """A variable bound to a value."""

    variable: Any
    value: Any


@dataclass(frozen=True)
class Condition:
    """A condition that is true."""

    condition: Any


Fact: TypeAlias = Span | Known | Condition


def holds_load(expression: Any) -> bool:
    """Whether a value depends on the contents of a tensor, or on a call that is not arithmetic."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, [(TensorLoad, found.append), (Call, found.append)], order="post")
    return any(not (isinstance(each, Call) and getattr(each.op, "name", "") in ARITHMETIC) for each in found)


def fit(indices: Iterable[tuple[Any, int]], facts: Sequence[Fact]) -> bool:
    """Whether each index is proven to lie in ``[0, extent)``, computed without overflow, wherever ``facts`` hold."""
    analyzer = Analyzer()
    with ExitStack() as stack:
        for fact in facts:
            if isinstance(fact, Span):
                analyzer.bind(fact.variable, Range.from_min_extent(fact.first, fact.extent), True)
            elif isinstance(fact, Known):
                if not holds_load(fact.value):
                    analyzer.bind(fact.variable, fact.value, True)
            elif not holds_load(fact.condition):
                # A condition on a tensor may no longer hold once the tensor is written.
                stack.enter_context(analyzer.constraint_scope(fact.condition))
        return all(_fits(index, extent, analyzer) for index, extent in indices)


def _fits(index: Any, extent: int, analyzer: Analyzer) -> bool:
    bound = analyzer.const_int_bound(index)
    is_inside = bound.min_value >= 0 and bound.max_value < extent
    if not is_inside and not analyzer.can_prove(tirx.And(index >= 0, index < extent)):
        return False
    return not _may_overflow(index, analyzer)


def _may_overflow(index: Any, analyzer: Analyzer) -> bool:
    """Whether a part of ``index`` may overflow its type: proofs assume unbounded numbers."""
    parts: list[Any] = []
    kinds = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Cast, tirx.LShift)
    tvm_ffi.structural_walk(index, [(kind, parts.append) for kind in kinds], order="post")
    return any(not _is_representable(part, analyzer) for part in parts)


def _is_representable(part: Any, analyzer: Analyzer) -> bool:
    dtype = tvm_ffi.dtype(part.ty.dtype)
    value = part.value if isinstance(part, tirx.Cast) else part
    if not str(value.ty.dtype).startswith(("int", "uint", "bool")):
        return False
    bound = analyzer.const_int_bound(value)
    is_signed = str(dtype).startswith("int")
    least = -(1 << (dtype.bits - 1)) if is_signed else 0
    most = (1 << (dtype.bits - is_signed)) - 1
    return bool(least <= bound.min_value and bound.max_value <= most)


def witness(index: Any, elements: int, facts: Sequence[Fact]) -> str | None:
    """A value of ``index`` outside ``[0, elements)`` in an iteration that certainly runs; None if none is found.

    Only the first and last iterations of loops are tried.
    """
    if any(isinstance(fact, Condition) and holds_load(fact.condition) for fact in facts) or holds_load(index):
        return None
    return next(islice((found for found in _tried(index, elements, facts) if found), 1), None)


def _tried(index: Any, elements: int, facts: Sequence[Fact]) -> Iterator[str | None]:
    spans = [fact for fact in facts if isinstance(fact, Span)]
    # The last iterations first: most out-of-bounds indices exceed the end of a buffer.
    for ends in islice(product((True, False), repeat=len(spans)), _MAX_POINTS):
        yield _at(index, elements, facts, dict(zip(map(id, spans), ends, strict=True)))


def _at(index: Any, elements: int, facts: Sequence[Fact], is_last: dict[int, bool]) -> str | None:
    """The value of ``index`` in one iteration, if that iteration runs and the index is outside."""
    analyzer = Analyzer()
    values: list[str] = []
    for fact in facts:
        if isinstance(fact, Condition):
            if _number(fact.condition, analyzer) != 1:
                return None
        elif isinstance(fact, Known):
            if not holds_load(fact.value):
                analyzer.bind(fact.variable, fact.value, True)
        else:
            first, extent = _number(fact.first, analyzer), _number(fact.extent, analyzer)
            if first is None or extent is None or extent < 1:
                return None
            value = first + (extent - 1 if is_last[id(fact)] else 0)
            analyzer.bind(fact.variable, tirx.const(value, str(fact.variable.ty.dtype)), True)
            values.append(f"{fact.variable.name} = {value}")
    number = _number(index, analyzer)
    if number is None or 0 <= number < elements:
        return None
    return f"{number} at {', '.join(values)}" if values else str(number)


def _number(expression: Any, analyzer: Analyzer) -> int | None:
    value = analyzer.simplify(expression)
    return int(value) if isinstance(value, tirx.IntImm) else None
