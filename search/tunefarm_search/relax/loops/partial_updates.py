"""TIR functions that copy a tensor to change a part of it, and what changes that part alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import TensorLoad

from tunefarm_search.relax.expressions import extents_of, operator_of
from tunefarm_search.tvm.errors import TVM_ERRORS

REST_IS_UNSPECIFIED: Final = "tunefarm.rest_is_unspecified"
"""Annotation of a block that writes a constant behind the part that it changes, where no reader looks."""
_MIN_RATIO: Final = 4
"""Of the elements of a tensor to those of each tensor that new elements are computed from."""
_MIN_STORES: Final = 2
"""Of a scatter: that of the copy, and others behind it."""
_BLOCKS: Final = 2
"""Of a function without other steps: its root and the one that writes."""
_MAX_BLOCKS: Final = 16
_MAX_LOADS: Final = 64
"""Of an expression with those that it reads inlined. TVM takes minutes to compile larger ones."""


@dataclass(frozen=True)
class Update:
    """A function that writes some elements, and those of the tensor at ``position`` elsewhere.

    ``in_place`` leaves the others of that tensor as they are, and has no result.
    """

    position: int
    in_place: Any


@dataclass(frozen=True)
class _Choice:
    """An expression that is ``new`` where ``condition`` holds, and ``kept`` elsewhere."""

    condition: Any
    new: Any
    kept: Any


def update_of(function: Any) -> Update | None:
    """What a function updates; None if it is of another kind."""
    return _scatter(function) or _selection(function)


def _scatter(function: Any) -> Update | None:
    """Of a function that copies a tensor, then writes to the copy, as TVM's scatters do."""
    *given, result = function.params
    stores = [each for each in _found(function.body, tirx.BufferStore) if each.buffer.same_as(result)]
    if len(stores) < _MIN_STORES or not isinstance(stores[0].value, TensorLoad):
        return None
    copies = (
        (loop, at)
        for loop in _found(function.body, tirx.For)
        for at, each in enumerate(given)
        if _is_copy(loop, each, stores[0])
    )
    copy, position = next(copies, (None, 0))
    data = given[position]
    if copy is None or sum(each.source.same_as(data) for each in _found(function.body, TensorLoad)) > 1:
        return None
    changes = (
        (tirx.For, lambda loop: tirx.Evaluate(0) if loop.same_as(copy) else loop),
        (tvm.ir.Var, lambda variable: data if variable.same_as(result) else variable),
    )
    body = tvm_ffi.structural_map(function.body, changes, order="pre")
    return Update(position, tirx.PrimFunc(given, body, function.ret_type, attrs=function.attrs))


def _is_copy(loop: Any, tensor: Any, store: Any) -> bool:
    """Whether ``store``, of what it loads to a result, copies all elements of ``tensor`` in ``loop``."""
    iterations, body = 1, loop
    while isinstance(body, tirx.For):
        iterations *= int(body.extent) if isinstance(body.extent, tirx.IntImm) else 0
        body = body.body
    if not body.same_as(store):
        return False
    extents = extents_of(tensor)
    return (
        body.value.source.same_as(tensor)
        and extents is not None
        and extents == extents_of(body.buffer)
        and iterations == math.prod(extents)
        and bool(tvm_ffi.structural_equal(list(body.value.indices), list(body.indices), map_free_vars=False))
    )


def _selection(function: Any) -> Update | None:
    """Of a function that chooses for each element."""
    *given, result = function.params
    store, blocks = _store_to(result, function)
    if store is None or len(blocks) > _MAX_BLOCKS:
        return None
    position = next((at for at, each in enumerate(given) if _choice(store, each) is not None), None)
    inlined = None if position is None else _inlined(function, blocks, store)
    if position is None or inlined is None:
        return None
    *given, result = inlined.params
    store, blocks = _store_to(result, inlined)
    is_plain = len(blocks) == _BLOCKS and blocks[0].body.same_as(store) and blocks[0].init is None
    choice = _choice(store, given[position]) if is_plain else None
    if choice is None:
        return None
    choice, iterators = _without_constant_rest(choice, blocks[0]), list(blocks[0].iter_vars)
    if not _changes_small_part(choice, [each.var for each in iterators]):
        return None
    body = _loops(choice, given[position], store, iterators)
    return Update(position, tirx.PrimFunc(given, body, function.ret_type, attrs=function.attrs))


def _store_to(result: Any, function: Any) -> tuple[Any, list[Any]]:
    """The only store to the result of a function, None if there are several, and the blocks, inner ones first."""
    stores: list[Any] = []
    blocks: list[Any] = []
    tvm_ffi.structural_walk(function.body, [(tirx.BufferStore, stores.append), (s_tir.SBlock, blocks.append)])
    found = [store for store in stores if store.buffer.same_as(result)]
    return (found[0] if len(found) == 1 else None), blocks


def _inlined(function: Any, blocks: Sequence[Any], store: Any) -> Any:
    """The function as one block; None if that is impossible, or its expression becomes large."""
    root, last = blocks[-1], next((each for each in blocks if each.body.same_as(store)), None)
    if last is None:
        return None
    names = [str(each.name_hint) for each in blocks if not each.same_as(root) and not each.same_as(last)]
    if not names:
        return function
    schedule = s_tir.Schedule(tvm.IRModule({"main": function}))
    try:
        for name in names:
            schedule.compute_inline(schedule.get_sblock(name))
            if len(_found(schedule.get(schedule.get_sblock(last.name_hint)).body, TensorLoad)) > _MAX_LOADS:
                return None
    except TVM_ERRORS:
        return None
    return schedule.mod["main"]


def _choice(store: Any, tensor: Any) -> _Choice | None:
    """What a store chooses between, if that is an element of ``tensor`` and a new one."""
    value = store.value
    if isinstance(value, tirx.Select):
        condition, one, other = value.condition, value.true_value, value.false_value
    elif operator_of(value) == "prim.if_then_else":
        condition, one, other = value.args
    else:
        return None
    if _is_element(other, tensor, store):
        return _Choice(condition, one, other)
    return _Choice(tirx.Not(condition), other, one) if _is_element(one, tensor, store) else None


def _is_element(kept: Any, tensor: Any, store: Any) -> bool:
    """Whether an expression is the element of ``tensor`` where ``store`` writes one of the same shape."""
    return (
        isinstance(kept, TensorLoad)
        and kept.source.same_as(tensor)
        and bool(tvm_ffi.structural_equal(kept.source.ty, store.buffer.ty, map_free_vars=False))
        and bool(tvm_ffi.structural_equal(list(kept.indices), list(store.indices), map_free_vars=False))
    )


def _without_constant_rest(choice: _Choice, block: Any) -> _Choice:
    """``choice`` without the constant that follows what it changes, where a block may leave that out."""
    is_cut = REST_IS_UNSPECIFIED in block.annotations and operator_of(choice.new) == "prim.if_then_else"
    if not is_cut:
        return choice
    condition, new, _ = choice.new.args
    return _Choice(tirx.And(choice.condition, condition), new, choice.kept)


def _changes_small_part(choice: _Choice, iterators: Sequence[Any]) -> bool:
    """Whether what decides, and what is written, are scalars or elements of tensors much smaller than the kept one.

    Writing it needs no schedule then; a sum of two tensors under a mask, say, does.
    """
    kept = choice.kept.source
    loads = [load for part in (choice.condition, choice.new) for load in _found(part, TensorLoad)]
    large = extents_of(kept)
    if large is None or any(load.source.same_as(kept) for load in loads):
        return False
    small = [extents_of(load.source) for load in loads if _depends_on(list(load.indices), iterators)]
    return all(each is not None and math.prod(each) * _MIN_RATIO <= math.prod(large) for each in small)


def _loops(choice: _Choice, tensor: Any, store: Any, iterators: Sequence[Any]) -> Any:
    """Loops that write to ``tensor``; those that the condition does not depend on are within it."""
    outer = [each for each in iterators if _depends_on(choice.condition, [each.var])]
    inner = [each for each in iterators if not any(each.same_as(other) for other in outer)]
    body = _nested(inner, tirx.BufferStore(tensor, choice.new, list(store.indices)))
    return _nested(outer, tirx.IfThenElse(choice.condition, body, None))


def _nested(iterators: Sequence[Any], body: Any) -> Any:
    for iterator in reversed(iterators):
        body = tirx.For(iterator.var, iterator.dom.min, iterator.dom.extent, tirx.ForKind.SERIAL, body)
    return body


def _depends_on(expression: Any, variables: Sequence[Any]) -> bool:
    used = _found(expression, tvm.ir.Var)
    return any(one.same_as(other) for one in used for other in variables)


def _found(expression: Any, kind: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (kind, found.append), order="pre")
    return found
