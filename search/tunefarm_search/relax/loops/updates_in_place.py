"""Writes a part of a tensor into it, where a function would copy all of it to change that part.

A scan collects its results so: each step writes a row into all of them. TVM's VM copies a tensor of N rows N times.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import TensorLoad

from tunefarm_search.relax.expressions import extents_of, is_reshape, operator_of, uses_of, viewed_by, with_blocks
from tunefarm_search.relax.loops.private_functions import with_inlined_calls

_CALL: Final = "relax.call_tir"
_SUFFIX: Final = "_in_place"
_MIN_RATIO: Final = 4
"""Of the elements of a tensor to those that an update in place writes."""


@dataclass(frozen=True)
class Update:
    """A function that writes elements where a condition holds, and the tensor at ``position`` elsewhere.

    ``in_place`` leaves the others of that tensor as they are, and has no result.
    """

    position: int
    in_place: Any


def with_fast_loops(module: Any) -> Any:
    """``module`` as its program runs: with inlined calls and with updates in place."""
    return with_updates_in_place(with_inlined_calls(module))


def updates_of(module: Any) -> dict[Any, Update]:
    """The TIR functions of ``module`` that copy a tensor to change a part of it."""
    functions = [each for each in module.functions.items() if isinstance(each[1], tirx.PrimFunc)]
    found = {variable: _update(function) for variable, function in functions}
    return {variable: update for variable, update in found.items() if update is not None}


def with_updates_in_place(module: Any) -> Any:
    """``module`` with functions that change their argument, where nothing else reads a tensor that a call updates."""
    updates = updates_of(module)
    if not updates:
        return module
    builder = relax.BlockBuilder(module)
    in_place = {
        variable: builder.add_func(update.in_place, f"{variable.name_hint}{_SUFFIX}")
        for variable, update in updates.items()
    }
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            builder.update_func(variable, _UpdatedFunction(module, function, updates, in_place).function())
    return builder.get()


class _UpdatedFunction:
    """One Relax function."""

    def __init__(self, module: Any, function: Any, updates: Mapping[Any, Update], in_place: Mapping[Any, Any]) -> None:
        self._module = module
        self._function = function
        self._updates = updates
        self._in_place = in_place
        self._uses = uses_of(function)
        self._own: set[Any] = set()
        """Variables whose memory this function allocated, and that no view has."""

    def function(self) -> Any:
        """The function with calls that update in place."""
        return with_blocks(self._function, [self._block(block) for block in self._function.body.blocks])

    def _block(self, block: Any) -> Any:
        if not isinstance(block, relax.DataflowBlock):
            return block
        bindings = []
        for binding in block.bindings:
            value = self._value(binding.value)
            if operator_of(binding.value) == _CALL and not self._is_view(binding.value):
                self._own.add(binding.var)
            bindings.append(binding if value is binding.value else relax.VarBinding(binding.var, value))
        return relax.DataflowBlock(bindings)

    def _is_view(self, call: Any) -> bool:
        return viewed_by(call, self._module) is not None or is_reshape(self._module[call.args[0]])

    def _value(self, value: Any) -> Any:
        if operator_of(value) != _CALL or value.args[0] not in self._updates:
            return value
        variable, given = value.args
        update = self._updates[variable]
        tensor = given.fields[update.position]
        if tensor not in self._own or self._uses[tensor] != 1:
            return value
        return relax.op.call_tir_inplace(self._in_place[variable], given, update.position, value.ty_args[0])


def _update(function: Any) -> Update | None:
    """What a function updates; None if it is of another kind."""
    stores: list[Any] = []
    blocks: list[Any] = []
    tvm_ffi.structural_walk(function.body, [(tirx.BufferStore, stores.append), (tvm.s_tir.SBlock, blocks.append)])
    if len(stores) != 1 or len(blocks) != 2 or not blocks[0].body.same_as(stores[0]):
        return None
    *given, result = function.params
    store, iterators = stores[0], list(blocks[0].iter_vars)
    if operator_of(store.value) != "prim.if_then_else" or not store.buffer.same_as(result):
        return None
    condition, new, kept = store.value.args
    position = next((at for at, each in enumerate(given) if _is_element(kept, each, store)), None)
    if position is None or not _is_small_part(new, kept) or not _is_scalar(condition, kept, iterators):
        return None
    body = tirx.IfThenElse(condition, tirx.BufferStore(given[position], new, list(store.indices)), None)
    for iterator in reversed(iterators):
        body = tirx.For(iterator.var, iterator.dom.min, iterator.dom.extent, tirx.ForKind.SERIAL, body)
    return Update(position, tirx.PrimFunc(given, body, function.ret_type, attrs=function.attrs))


def _is_element(kept: Any, tensor: Any, store: Any) -> bool:
    """Whether an expression is the element of ``tensor`` where ``store`` writes one of the same shape."""
    return (
        isinstance(kept, TensorLoad)
        and kept.source.same_as(tensor)
        and bool(tvm_ffi.structural_equal(kept.source.ty, store.buffer.ty, map_free_vars=False))
        and bool(tvm_ffi.structural_equal(list(kept.indices), list(store.indices), map_free_vars=False))
    )


def _is_small_part(new: Any, kept: Any) -> bool:
    """Whether an expression is an element of a tensor much smaller than that of ``kept``.

    Writing it needs no schedule then; a masked sum, say, does.
    """
    if not isinstance(new, TensorLoad) or any(load.source.same_as(kept.source) for load in _found(new, TensorLoad)):
        return False
    small, large = extents_of(new.source), extents_of(kept.source)
    return small is not None and large is not None and math.prod(small) * _MIN_RATIO <= math.prod(large)


def _is_scalar(condition: Any, kept: Any, iterators: Sequence[Any]) -> bool:
    """Whether a condition compares iterators with numbers and scalars, not with elements of a mask or of ``kept``."""
    loads, variables = _found(condition, TensorLoad), [each.var for each in iterators]
    used = [each for load in loads for index in load.indices for each in _found(index, tvm.ir.Var)]
    is_changed = any(load.source.same_as(kept.source) for load in loads)
    return not is_changed and not any(one.same_as(other) for one in used for other in variables)


def _found(expression: Any, kind: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (kind, found.append))
    return found
