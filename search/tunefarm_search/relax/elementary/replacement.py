"""Replaces calls of the C library's elementary functions in the TIR functions of a model."""

from collections.abc import Callable, Collection
from typing import Any, Final

import tvm
import tvm_ffi

from tunefarm_search.relax.elementary import expressions

REPLACED: Final[dict[str, Callable[[Any], Any]]] = {
    "tirx.exp": expressions.exp,
    "tirx.sigmoid": expressions.sigmoid,
    "tirx.tanh": expressions.tanh,
    "tirx.erf": expressions.erf,
    "tirx.log": expressions.log,
    "tirx.sin": expressions.sin,
    "tirx.cos": expressions.cos,
}
_POWER: Final = "tirx.pow"
_EXPONENTS: Final = frozenset({2.0, 3.0, 4.0})


def without_library_calls(module: Any, kept: Collection[str]) -> Any:
    """Replace elementary functions of float32 in a module's TIR functions by arithmetic.

    For CPUs, TVM compiles them to one call of the C library for each element, also in vectorised loops. Of functions of
    functions in one expression, only the innermost are replaced: TVM's code generator writes out every variable of an
    expression for its own analysis, which takes minutes for some of them.

    Args:
        module: TVM's ``IRModule``.
        kept: names of functions that stay as they are.
    """
    changed = tvm.IRModule(module.functions, attrs=module.attrs)
    for variable, function in module.functions.items():
        if isinstance(function, tvm.tirx.PrimFunc) and str(variable.name_hint) not in kept:
            body = tvm_ffi.structural_map(function.body, (tvm.ir.Call, _replaced))
            if not body.same_as(function.body):
                changed.update_func(variable, function.with_body(body))
    return changed


def _replaced(call: Any) -> Any:
    name = str(getattr(call.op, "name", ""))
    if name != _POWER and name not in REPLACED:
        return call
    if str(call.ty.dtype) != "float32" or _has_variables(call.args[0]):
        return call
    if name == _POWER:
        exponent = getattr(call.args[1], "value", None)
        return expressions.power(call.args[0], int(exponent)) if exponent in _EXPONENTS else call
    return REPLACED[name](call.args[0])


def _has_variables(expression: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.tirx.Let, found.append), order="post")
    return bool(found)
