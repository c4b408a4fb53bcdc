"""Writes a part of a tensor into it, where a function would copy all of it to change that part.

A scan collects its results so: each step writes a row into all of them. TVM's VM copies a tensor of N rows N times. So
does a decoder with its caches, which are inputs: the caller decides whether a call may change them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tvm import relax, tirx

from tunefarm_schemas.kernel_library.program import in_place_name
from tunefarm_schemas.tuning.model import EntryUpdates
from tunefarm_search.relax.expressions import is_reshape, operator_of, uses_of, value_of, viewed_by, with_blocks
from tunefarm_search.relax.loops.partial_updates import Update, update_of
from tunefarm_search.relax.loops.private_functions import with_inlined_calls

_CALL: Final = "relax.call_tir"
_SUFFIX: Final = "_in_place"
_SYMBOL: Final = "global_symbol"
_NUM_INPUT: Final = "num_input"
"""Attribute of an entry whose weights are parameters behind its inputs: how many inputs it has."""


@dataclass(frozen=True)
class UpdatedModule:
    """A module with updates in place.

    Attributes:
        module: has a second function for each entry that can update its inputs, ``in_place_name`` of it, which returns
            such an input as the result that takes its place.
        updated_inputs: these inputs.
    """

    module: Any
    updated_inputs: tuple[EntryUpdates, ...]


def with_fast_loops(module: Any) -> UpdatedModule:
    """``module`` as its program runs: with inlined calls and with updates in place."""
    return with_updates_in_place(with_inlined_calls(module))


def updates_of(module: Any) -> dict[Any, Update]:
    """The TIR functions of ``module`` that copy a tensor to change a part of it."""
    functions = [each for each in module.functions.items() if isinstance(each[1], tirx.PrimFunc)]
    found = {variable: update_of(function) for variable, function in functions}
    return {variable: update for variable, update in found.items() if update is not None}


def with_updates_in_place(module: Any) -> UpdatedModule:
    """``module`` with functions that change their argument, where nothing else reads a tensor that a call updates."""
    updates = updates_of(module)
    if not updates:
        return UpdatedModule(module, ())
    builder = relax.BlockBuilder(module)
    in_place = {
        variable: builder.add_func(update.in_place, f"{variable.name_hint}{_SUFFIX}")
        for variable, update in updates.items()
    }
    updated_inputs: list[EntryUpdates] = []
    for variable, function in module.functions.items():
        if not isinstance(function, relax.Function):
            continue
        builder.update_func(variable, _UpdatedFunction(module, function, updates, in_place).function())
        inputs = list(function.params)[: int((function.attrs or {}).get(_NUM_INPUT, 0))]
        changed = _updated_inputs(_UpdatedFunction(module, function, updates, in_place, inputs)) if inputs else []
        if changed:
            entry = str(variable.name_hint)
            second = _UpdatedFunction(module, function, updates, in_place, changed).function()
            builder.add_func(second.with_attr(_SYMBOL, in_place_name(entry)), in_place_name(entry))
            names = tuple(str(each.name) for each in inputs if each in changed)
            updated_inputs.append(EntryUpdates(entry=entry, inputs=names))
    return UpdatedModule(builder.get(), tuple(updated_inputs))


def _updated_inputs(updated: "_UpdatedFunction") -> list[Any]:
    """The inputs that a function updates and returns."""
    body = updated.function().body
    values = {binding.var: binding.value for block in body.blocks for binding in block.bindings}
    leaves = _leaves(body.body, values)
    found = {variable: given for variable, given in updated.inputs_of.items() if not variable.same_as(given)}
    return [given for variable, given in found.items() if any(each.same_as(variable) for each in leaves)]


def _leaves(expression: Any, values: Mapping[Any, Any]) -> list[Any]:
    """The variables that a result consists of."""
    value = value_of(expression, values.get)
    if isinstance(value, relax.Tuple):
        return [leaf for field in value.fields for leaf in _leaves(field, values)]
    return [expression]


class _UpdatedFunction:
    """One Relax function. ``inputs`` are the parameters that it may change."""

    def __init__(
        self,
        module: Any,
        function: Any,
        updates: Mapping[Any, Update],
        in_place: Mapping[Any, Any],
        inputs: Sequence[Any] = (),
    ) -> None:
        self._module = module
        self._function = function
        self._updates = updates
        self._in_place = in_place
        self._uses = uses_of(function)
        self._own: set[Any] = set(inputs)
        """Variables whose memory this function allocated or may change, and that no view has."""
        self.inputs_of = {each: each for each in inputs}
        """The input whose memory a variable has, for inputs and what updates them."""

    def function(self) -> Any:
        """The function with calls that update in place."""
        return with_blocks(self._function, [self._block(block) for block in self._function.body.blocks])

    def _block(self, block: Any) -> Any:
        if not isinstance(block, relax.DataflowBlock):
            return block
        bindings = []
        for binding in block.bindings:
            tensor = self._updated(binding.value)
            if operator_of(binding.value) == _CALL and not self._is_view(binding.value):
                self._own.add(binding.var)
            if tensor is None:
                bindings.append(binding)
                continue
            bindings.append(relax.VarBinding(binding.var, self._in_place_call(binding.value)))
            if tensor in self.inputs_of:
                self.inputs_of[binding.var] = self.inputs_of[tensor]
        return relax.DataflowBlock(bindings)

    def _is_view(self, call: Any) -> bool:
        return viewed_by(call, self._module) is not None or is_reshape(self._module[call.args[0]])

    def _updated(self, value: Any) -> Any:
        """The tensor that an expression can update in place; None if it is none of that kind."""
        if operator_of(value) != _CALL or value.args[0] not in self._updates:
            return None
        tensor = value.args[1].fields[self._updates[value.args[0]].position]
        return tensor if tensor in self._own and self._uses[tensor] == 1 else None

    def _in_place_call(self, value: Any) -> Any:
        variable, given = value.args
        position = self._updates[variable].position
        return relax.op.call_tir_inplace(self._in_place[variable], given, position, value.ty_args[0])
