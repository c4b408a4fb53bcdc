"""Replaces calls of the C library's elementary functions in the TIR functions of a model."""

from collections.abc import Callable, Collection
from typing import Any, Final

import tvm
import tvm_ffi

from tunefarm_search.relax.elementary import expressions, hyperbolic, powers, trigonometric

REPLACED: Final[dict[str, Callable[..., Any]]] = {
    "tirx.exp": expressions.exp,
    "tirx.sigmoid": expressions.sigmoid,
    "tirx.tanh": expressions.tanh,
    "tirx.erf": expressions.erf,
    "tirx.log": expressions.log,
    "tirx.sin": trigonometric.sin,
    "tirx.cos": trigonometric.cos,
    "tirx.tan": trigonometric.tan,
    "tirx.asin": trigonometric.asin,
    "tirx.acos": trigonometric.acos,
    "tirx.atan": trigonometric.atan,
    "tirx.atan2": trigonometric.atan2,
    "tirx.sinh": hyperbolic.sinh,
    "tirx.cosh": hyperbolic.cosh,
    "tirx.asinh": hyperbolic.asinh,
    "tirx.acosh": hyperbolic.acosh,
    "tirx.atanh": hyperbolic.atanh,
    "tirx.pow": powers.power,
}
_OF_FLOAT64: Final[dict[str, Callable[..., Any]]] = {
    "tirx.sinh": hyperbolic.sinh_of_float64,
    "tirx.cosh": hyperbolic.cosh_of_float64,
}
"""Functions that TVM does not compile for CPUs."""


def without_library_calls(module: Any, kept: Collection[str]) -> Any:
    """Replace elementary functions of float32 and of halves in a module's TIR functions by arithmetic of float32.

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
    if name not in REPLACED or any(map(_has_variables, call.args)):
        return call
    kind = str(call.ty.dtype)
    if kind == "float32":
        return REPLACED[name](*call.args)
    if kind in {"float16", "bfloat16"}:
        return REPLACED[name](*(each.astype("float32") for each in call.args)).astype(kind)
    return _OF_FLOAT64[name](*call.args) if kind == "float64" and name in _OF_FLOAT64 else call


def _has_variables(expression: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.tirx.Let, found.append), order="post")
    return bool(found)
