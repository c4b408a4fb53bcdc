"""What Relax expressions are: the operator of a call, the element of a constant."""

from collections.abc import Callable
from typing import Any, Final

from tunefarm_search.relax.constants import array_of, is_constant

Lookup = Callable[[Any], Any]
"""The value of a variable; None if it is unknown. Returns other expressions as they are."""
ELEMENTWISE: Final = frozenset(
    f"relax.{name}"
    for name in (
        *("abs", "astype", "clip", "exp", "negative", "round", "sigmoid", "sqrt", "tanh", "nn.gelu", "nn.leakyrelu"),
        *("nn.relu", "nn.relu6", "nn.silu"),
    )
)
"""Operators of one tensor, perhaps with numbers."""
BINARY: Final = frozenset(f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum"))
"""Operators of two tensors, or of one and a number."""


def operator_of(expression: Any) -> str:
    """The name of the operator that an expression calls; empty for other expressions."""
    return str(getattr(getattr(expression, "op", None), "name", ""))


def scalar_of(expression: Any) -> float | None:
    """The only element of a constant; None for other expressions."""
    if not is_constant(expression):
        return None
    array = array_of(expression)
    return float(array.reshape(())) if array.size == 1 else None
