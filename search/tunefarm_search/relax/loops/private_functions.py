"""Makes calls of a module's private Relax functions cheap.

A loop of StableHLO is a function of one iteration, one of two iterations that calls it twice, and so on. Such a call
costs TVM's VM more than a small kernel does: it checks each argument, and makes and takes apart a tuple.
"""

import math
from collections.abc import Collection
from functools import cache
from typing import Any, Final

import tvm
from tvm import relax

from tunefarm_search.relax.expressions import with_blocks

MAX_CALLS: Final = 2048
"""In a function with the bodies of those that it calls. TVM takes about half a millisecond to lower each."""
_SYMBOL: Final = "global_symbol"
_CHECKS: Final = frozenset({"vm.builtin.check_tensor_info", "vm.builtin.match_shape"})


def private_functions(module: Any) -> set[Any]:
    """The variables of the Relax functions that only other functions of ``module`` call."""
    return {
        variable
        for variable, function in module.functions.items()
        if isinstance(function, relax.Function) and _SYMBOL not in (function.attrs or {})
    }


def with_inlined_calls(module: Any) -> Any:
    """``module`` with the bodies of private functions in place of their calls, where the result has few calls.

    Functions with a condition keep their calls, and so do those that call them. Private functions that none calls are
    left out.
    """
    private = private_functions(module)

    @cache
    def calls(variable: Any) -> float:
        """Of a function once those of private functions are inlined; infinite if they cannot be."""
        values = [binding.value for block in module[variable].body.blocks for binding in block.bindings]
        if any(isinstance(value, relax.If) for value in values):
            return math.inf
        made = [value for value in values if isinstance(value, relax.Call)]
        return sum(calls(call.op) if call.op in private else 1 for call in made)

    changed = {variable: function for variable, function in module.functions.items() if variable not in private}
    todo = [variable for variable, function in changed.items() if isinstance(function, relax.Function)]
    while todo:
        variable = todo.pop()
        callees = _referred(module[variable]) & private
        if callees and calls(variable) <= MAX_CALLS:
            changed[variable] = _inlined(module, variable, private)
            continue
        changed[variable] = module[variable]
        todo += callees - changed.keys()
    return tvm.IRModule(changed, attrs=module.attrs)


def _referred(function: Any) -> set[Any]:
    """The global variables in a function."""
    found: set[Any] = set()

    def keep(expression: Any) -> None:
        if isinstance(expression, tvm.ir.GlobalVar):
            found.add(expression)

    relax.analysis.post_order_visit(function, keep)
    return found


def _inlined(module: Any, variable: Any, private: Collection[Any]) -> Any:
    """A function with the bodies of all private functions that it calls."""
    functions = {
        each: function
        for each, function in module.functions.items()
        if each in private or not isinstance(function, relax.Function)
    }
    # TVM removes private functions once they are inlined.
    functions[variable] = module[variable].with_attr(_SYMBOL, str(variable.name_hint))
    passes = relax.transform.InlinePrivateFunctions(), relax.transform.CanonicalizeBindings()
    whole = tvm.transform.Sequential(passes)(tvm.IRModule(functions, attrs=module.attrs))[variable]
    return whole.without_attr(_SYMBOL) if variable in private else whole


def without_argument_checks(lowered: Any, names: Collection[str]) -> Any:
    """``lowered``, where the functions with these names take what they are given: their callers pass what they declare.

    Args:
        lowered: a module that TVM lowered for its VM. Functions with symbolic shapes keep their checks.
        names: of private functions.
    """
    changed = tvm.IRModule(lowered.functions, attrs=lowered.attrs)
    for variable, function in lowered.functions.items():
        if str(variable.name_hint) in names and not _has_symbolic_shapes(function):
            blocks = [_without_checks(block) for block in function.body.blocks]
            changed.update_func(variable, with_blocks(function, blocks))
    return changed


def _has_symbolic_shapes(function: Any) -> bool:
    return bool(relax.analysis.defined_symbolic_vars(function))


def _without_checks(block: Any) -> Any:
    kept = [
        binding
        for binding in block.bindings
        if not (isinstance(binding.value, relax.Call) and _symbol(binding.value.op) in _CHECKS)
    ]
    return relax.DataflowBlock(kept) if isinstance(block, relax.DataflowBlock) else relax.BindingBlock(kept)


def _symbol(function: Any) -> str:
    return str(function.global_symbol) if isinstance(function, relax.ExternFunc) else ""
