"""What Relax expressions are: the operator of a call, the value of a variable, the shape of a tensor."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import tvm
from tvm import relax

from tunefarm_search.relax.constants import array_of, is_constant

Lookup = Callable[[Any], Any]
"""The value of a variable; None if it is unknown. Returns other expressions as they are."""
ELEMENTWISE: Final = frozenset(
    f"relax.{name}"
    for name in (
        *("abs", "astype", "clip", "exp", "negative", "round", "sigmoid", "sqrt", "tanh", "nn.gelu", "nn.gelu_tanh"),
        *("nn.leakyrelu", "nn.relu", "nn.relu6", "nn.silu"),
    )
)
"""Operators of one tensor, perhaps with numbers."""
BINARY: Final = frozenset(f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum"))
"""Operators of two tensors, or of one and a number."""
MATMUL: Final = "relax.matmul"
OPAQUE: Final = 8
"""TVM's ``OpPatternKind`` of functions that are fused with no other."""
FUSED: Final = 4
"""TVM's ``OpPatternKind`` of functions that elementwise ones are fused with, such as convolutions."""
VIEW: Final = "tunefarm.view"
"""Attribute of TIR functions that return their argument in another shape, for functions that need it in that one."""


def operator_of(expression: Any) -> str:
    """The name of the operator that an expression calls; empty for other expressions."""
    return str(getattr(getattr(expression, "op", None), "name", ""))


def value_of(expression: Any, binding: Lookup) -> Any:
    """What variables stand for, by the ``binding`` of each, as far as it is known; other expressions as they are."""
    while isinstance(expression, relax.Var):
        expression = binding(expression)
    return expression


def uses_of(function: Any) -> dict[Any, int]:
    """How often each variable of a Relax function is read."""
    found: dict[Any, int] = {}

    def count(expression: Any) -> None:
        for each in _operands(expression):
            if isinstance(each, relax.Var):
                found[each] = found.get(each, 0) + 1

    relax.analysis.post_order_visit(function, count)
    return found


def _operands(expression: Any) -> list[Any]:
    if isinstance(expression, relax.Call):
        return list(expression.args)
    if isinstance(expression, relax.Tuple):
        return list(expression.fields)
    if isinstance(expression, relax.TupleGetItem):
        return [expression.tuple_value]
    if isinstance(expression, relax.SeqExpr):
        return [expression.body]
    return []


def rewritten(module: Any, mutator: Any, rewrite: Callable[[Any], Any] | None = None) -> Any:
    """The module with its functions as ``mutator``, or ``rewrite``, gives them, and the TIR functions that it adds."""
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, (rewrite or mutator.visit_expr)(function))
    return mutator.builder_.get()


def bound(builder: Any, variable: Any, value: Any, suffix: str = "") -> Any:
    """Bind ``value`` to a new variable with the name and the kind of another one."""
    value = builder.normalize(value)
    found = type(variable)(f"{variable.name}{suffix}", value.ty)
    builder.emit_normalized(relax.VarBinding(found, value))
    return found


def with_blocks(function: Any, blocks: Sequence[Any]) -> Any:
    """A Relax function with other blocks of bindings, and the same result."""
    body = relax.SeqExpr(list(blocks), function.body.body)
    return relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)


def integers(values: Iterable[Any]) -> list[int]:
    """Attributes or extents of TVM as Python's numbers."""
    return [int(each) for each in values]


def extents_of(value: Any) -> tuple[int, ...] | None:
    """The shape of a tensor; None if it is not constant."""
    try:
        return tuple(int(extent) for extent in value.ty.shape)
    except (TypeError, AttributeError):
        return None


def scalar_of(expression: Any) -> float | None:
    """The only element of a constant; None for other expressions."""
    if not is_constant(expression):
        return None
    array = array_of(expression)
    return float(array.reshape(())) if array.size == 1 else None


def is_reshape(function: Any) -> bool:
    """Whether a TIR function only copies its input to another shape; the Relax VM then makes a view instead."""
    return bool(relax.analysis.has_reshape_pattern(function))


def viewed_by(call: Any, module: Any) -> Any:
    """What an expression of ``module`` gives another shape, if it calls a TIR function with ``VIEW``; else None."""
    if operator_of(call) != "relax.call_tir" or not isinstance(call.args[0], tvm.ir.GlobalVar):
        return None
    is_view = VIEW in (module[call.args[0]].attrs or {})
    return call.args[1].fields[0] if is_view else None
