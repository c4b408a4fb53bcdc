"""Variables of one dataflow block that another block reads, as the blocks before and behind a condition do.

A pass that looks at what a variable stands for may read variables of the block in which that is computed. Those that
are not among the results of their block are known in it only, so they become results.
"""

from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator


def well_scoped(module: Any) -> Any:
    """The module with each variable that several blocks of a function read among the results of its own."""
    scoped = tvm.IRModule(module.functions, attrs=module.attrs)
    for variable, function in module.functions.items():
        escaped = _escaped(function) if isinstance(function, relax.Function) else frozenset()
        if escaped:
            scoped.update_func(variable, _Scoping(escaped).visit_expr(function))
    return scoped


def _escaped(function: Any) -> frozenset[Any]:
    """The variables that a block of a function keeps to itself, and another one reads."""
    body = function.body
    if not isinstance(body, relax.SeqExpr) or len(body.blocks) < 2:
        return frozenset()
    escaped: set[Any] = set()
    known: set[Any] = set()  # of the blocks before
    for block in body.blocks:
        own: set[Any] = set()
        for binding in block.bindings:
            escaped |= known & set(relax.analysis.free_vars(binding.value))
            if isinstance(binding.var, relax.DataflowVar):
                own.add(binding.var)
        known |= own
    return frozenset(escaped | known & set(relax.analysis.free_vars(body.body)))


@mutator
class _Scoping(PyExprMutator):  # type: ignore[misc]
    def __init__(self, escaped: frozenset[Any]) -> None:
        super().__init__()
        self._escaped = escaped

    def visit_dataflow_var_def_(self, variable: Any) -> Any:
        """Define a variable that escapes as a result of its block."""
        if variable not in self._escaped:
            return variable
        result = relax.Var(variable.name, variable.ty)
        self.set_var_remap(variable, result)
        return result
