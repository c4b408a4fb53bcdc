"""Short names for functions that TVM names after everything they were fused from."""

from typing import Any, Final

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_schemas.frozen import digest

MAX_CHARACTERS: Final = 120
"""The symbols of a library have at most 256 characters, prefix included."""
_KEPT: Final = 100


def with_short_names(module: Any) -> Any:
    """Return the module with long names of TIR functions cut, and made unique by a digest of the whole name."""
    renamed = {
        str(variable.name_hint): _shorter(variable)
        for variable, function in module.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc) and len(variable.name_hint) > MAX_CHARACTERS
    }
    if not renamed:
        return module
    functions = {}
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            functions[variable] = _Renaming(module, renamed).visit_expr(function)
        else:
            functions[renamed.get(str(variable.name_hint), variable)] = function
    return tvm.IRModule(functions, attrs=module.attrs)


def _shorter(variable: Any) -> Any:
    name = str(variable.name_hint)
    shorter = tvm.ir.GlobalVar(f"{name[:_KEPT]}_{digest(name.encode())[:12]}")
    relax.expr._update_type(shorter, variable.ty)  # noqa: SLF001 - as TVM's own passes do
    return shorter


@mutator
class _Renaming(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any, renamed: dict[str, Any]) -> None:
        super().__init__(module)
        self._renamed = renamed

    def visit_global_var_(self, variable: Any) -> Any:
        return self._renamed.get(str(variable.name_hint), variable)
