"""The work that every schedule of a function certainly does.

A compiler can omit much of what a function seems to do: sums over padding, zero terms, repeated computations, rows that
no index selects. Only two things count here: output elements that are stored unconditionally, and sums of products of
inputs with a separate sum for each output. Compilers keep the order of float additions, and therefore every addition;
they may replace sums of integers by a formula.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from tunefarm_schemas.tuning.least_work import LeastWork
from tunefarm_search.tvm.serialization import load_json


def least_work_of(module_json: str) -> LeastWork:
    """Like ``least_work``, for a module in TVM's JSON form. Raises TVM's error for an invalid text."""
    return least_work(load_json(module_json))


def least_work(module: tvm.IRModule) -> LeastWork:
    """The least work of the function ``main`` of a module; none if its form is not understood."""
    function = module["main"]
    parameters = set(function.params)
    written: dict[Any, int] = {}
    multiply_adds, widths = 0, [64]
    for stored in _stores(function.body, {}):
        if stored.store.buffer not in parameters or stored.may_change_nothing:
            continue
        buffer = stored.store.buffer
        elements = _stored_elements(stored)
        written[buffer] = max(written.get(buffer, 0), elements * int(buffer.dtype.bits) * int(buffer.dtype.lanes) // 8)
        factors = _factors(stored, parameters)
        if elements and factors:
            multiply_adds += prod(stored.extents.values())
            widths += [int(factor.source.dtype.bits) for factor in factors]
    return LeastWork(written_bytes=sum(written.values()), multiply_adds=multiply_adds, multiply_add_bits=min(widths))


@dataclass(frozen=True)
class _Stored:
    """A store that runs for all values of a block's variables. ``extents`` are the extents of all of them."""

    store: Any
    extents: dict[Any, int]
    spatial: frozenset[Any]
    has_init: bool

    @property
    def may_change_nothing(self) -> bool:
        """Whether it may store the value that is already there, which a compiler can omit."""
        loads: list[Any] = []
        tvm_ffi.structural_walk(self.store.value, (TensorLoad, loads.append), order="post")
        return not self.has_init and any(load.source.same_as(self.store.buffer) for load in loads)


def _stores(statement: Any, loops: dict[Any, int]) -> Iterator[_Stored]:
    """Stores below loops with constant extents and nothing else; ``loops`` are those around ``statement``."""
    if isinstance(statement, tirx.SeqStmt):
        for each in statement.seq:
            yield from _stores(each, loops)
    elif isinstance(statement, tirx.For):
        extent = _constant(statement.extent)
        if extent is not None and _constant(statement.min) == 0:
            yield from _stores(statement.body, loops | {statement.loop_var: extent})
    elif isinstance(statement, tvm.s_tir.SBlockRealize) and _constant(statement.predicate) == 1:
        block = statement.block
        if len(block.iter_vars) == 0:
            yield from _stores(block.body, loops)
        elif isinstance(block.body, tirx.BufferStore):
            yield from _of_block(statement, loops)


def _of_block(realize: Any, loops: dict[Any, int]) -> Iterator[_Stored]:
    """The store of a block in which each variable runs over a loop of its own."""
    values = list(realize.iter_values)
    variables = [each.var for each in realize.block.iter_vars]
    extents = [loops.get(value, 0) if isinstance(value, tirx.Var) else 0 for value in values]
    if all(extents) and len(set(values)) == len(values):
        kinds = zip(variables, realize.block.iter_vars, strict=True)
        spatial = frozenset(variable for variable, each in kinds if each.iter_type == tirx.IterVar.DataPar)
        of_variables = dict(zip(variables, extents, strict=True))
        yield _Stored(realize.block.body, of_variables, spatial, has_init=realize.block.init is not None)


def _stored_elements(stored: _Stored) -> int:
    """Number of stored elements if each index is a variable of its own or a constant; otherwise 0."""
    variables = [index for index in stored.store.indices if isinstance(index, tirx.Var)]
    others = [index for index in stored.store.indices if not isinstance(index, tirx.Var)]
    is_plain = all(variable in stored.extents for variable in variables) and len(set(variables)) == len(variables)
    if not is_plain or any(_constant(index) is None for index in others):
        return 0
    return prod(stored.extents[variable] for variable in variables)


def _factors(stored: _Stored, parameters: set[Any]) -> Sequence[Any]:
    """The inputs whose product is added to a sum for each value of the block's variables; empty for any other store."""
    store = stored.store
    if not str(store.buffer.dtype).startswith(("float", "bfloat")) or not isinstance(store.value, tirx.Add):
        return ()
    sides = (store.value.a, store.value.b)
    terms = [side for side in sides if not _is_sum_itself(side, store)]
    if len(terms) != 1:
        return ()
    term = _plain(terms[0])
    loads = [_plain(term.a), _plain(term.b)] if isinstance(term, tirx.Mul) else [term]
    are_inputs = all(isinstance(load, TensorLoad) and load.source in parameters for load in loads)
    if not are_inputs or any(load.source.same_as(store.buffer) for load in loads):
        return ()
    subscripts = [_variables(index) for load in loads for index in load.indices]
    resolved = all(_is_resolved(variable, subscripts, stored) for variable in stored.extents)
    return loads if resolved else ()


def _is_sum_itself(side: Any, store: Any) -> bool:
    is_load = isinstance(side, TensorLoad) and side.source.same_as(store.buffer)
    return is_load and all(
        tvm_ffi.structural_equal(one, other, map_free_vars=False)
        for one, other in zip(side.indices, store.indices, strict=True)
    )


def _is_resolved(variable: Any, subscripts: Sequence[frozenset[Any]], stored: _Stored) -> bool:
    """Whether different values of a variable select different elements, so that no two of them share an addition."""
    if stored.extents[variable] == 1:
        return True
    if variable not in stored.spatial:
        return any(variable in variables for variables in subscripts)
    return any(variables & stored.spatial == {variable} for variables in subscripts)


def _variables(index: Any) -> frozenset[Any]:
    """The variables of a linear combination of variables; none for any other expression."""
    if isinstance(index, tirx.Var):
        return frozenset({index})
    if isinstance(index, tirx.Add | tirx.Sub):
        left, right = _variables(index.a), _variables(index.b)
        is_sum = all(side or _constant(part) is not None for side, part in ((left, index.a), (right, index.b)))
        return left | right if is_sum and not left & right else frozenset()
    if isinstance(index, tirx.Mul) and _constant(index.b):
        return _variables(index.a)
    return frozenset()


def _plain(value: Any) -> Any:
    return _plain(value.value) if isinstance(value, tirx.Cast) else value


def _constant(value: Any) -> int | None:
    return int(value) if isinstance(value, tirx.IntImm) else None
