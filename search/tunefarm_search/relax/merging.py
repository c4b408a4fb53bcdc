"""One module of several that define functions of the same names."""

from collections.abc import Container, Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

_SYMBOL = "global_symbol"


def merged(modules: Mapping[str, Any], entry: str) -> Any:
    """One module with the function ``entry`` of each under the name that is its key.

    Other functions keep their names where nothing else has them. TIR functions that are equal become one.

    Args:
        modules: Relax modules, each with a function ``entry``.
        entry: the only function of each that users call.
    """
    functions: dict[Any, Any] = {}
    taken: dict[str, Any] = {}
    for name, module in modules.items():
        variables: dict[str, Any] = {}
        reserved = {str(variable.name_hint) for variable in module.functions} | taken.keys()
        for variable, function in module.functions.items():
            found = _variable(variable, function, name, entry, taken, reserved)
            variables[str(variable.name_hint)] = found
            reserved.add(str(found.name_hint))
        for variable, function in module.functions.items():
            renamed = variables[str(variable.name_hint)]
            if str(renamed.name_hint) in taken:
                continue  # an equal function of another module
            changed = _renamed(module, function, variables)
            symbol = (function.attrs or {}).get(_SYMBOL)
            if symbol is not None:
                changed = changed.with_attr(_SYMBOL, str(renamed.name_hint))
            functions[renamed] = changed
        taken |= {str(variable.name_hint): (variable, function) for variable, function in functions.items()}
    return tvm.IRModule(functions)


def _variable(
    variable: Any, function: Any, name: str, entry: str, taken: Mapping[str, tuple[Any, Any]], reserved: Container[str]
) -> Any:
    """The variable of a function in the merged module."""
    old = str(variable.name_hint)
    if old == entry:
        return _new_variable(variable, name)
    new, number = old, 0
    while new in (taken if number == 0 else reserved):
        known, other = taken.get(new, (None, None))
        if isinstance(function, tvm.tirx.PrimFunc) and tvm_ffi.structural_equal(function, other):
            return known
        number += 1
        new = f"{old}_{number}"
    return _new_variable(variable, new)


def _new_variable(variable: Any, name: str) -> Any:
    made = tvm.ir.GlobalVar(name)
    relax.expr._update_type(made, variable.ty)  # noqa: SLF001 - as TVM's own passes do
    return made


def _renamed(module: Any, function: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(function, relax.Function):
        return _FunctionRenaming(module, variables).visit_expr(function)
    return function


@mutator
class _FunctionRenaming(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any, variables: Mapping[str, Any]) -> None:
        super().__init__(module)
        self._variables = variables

    def visit_global_var_(self, variable: Any) -> Any:
        """The variable that replaces another."""
        return self._variables[str(variable.name_hint)]
