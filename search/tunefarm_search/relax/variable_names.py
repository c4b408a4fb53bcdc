"""Names that relate the bindings of a model before and after TVM's passes, which keep names but not variables."""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator


def with_unique_names(module: Any, entries: Sequence[str], prefix: str) -> Any:
    """The module, in which the variables of all bindings of ``entries`` are called ``prefix`` and a number."""
    named = tvm.IRModule(module.functions, attrs=module.attrs)
    naming = _Naming(prefix)
    for entry in entries:
        naming.kept.update(named[entry].params)
        named.update_func(named.get_global_var(entry), naming.visit_expr(named[entry]))
    return named


@mutator
class _Naming(PyExprMutator):  # type: ignore[misc]
    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix
        self._count = 0
        self.kept: set[Any] = set()

    def visit_var_def_(self, variable: Any) -> Any:
        return self._named(relax.Var, variable)

    def visit_dataflow_var_def_(self, variable: Any) -> Any:
        return self._named(relax.DataflowVar, variable)

    def _named(self, kind: Any, variable: Any) -> Any:
        if variable in self.kept:
            return variable
        named = kind(f"{self._prefix}{self._count}", variable.ty)
        self._count += 1
        self.set_var_remap(variable, named)
        return named
