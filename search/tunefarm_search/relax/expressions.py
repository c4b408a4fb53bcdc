"""What Relax expressions are: the operator of a call, the element of a constant."""

from collections.abc import Callable
from typing import Any

from tunefarm_search.relax.constants import array_of, is_constant

Lookup = Callable[[Any], Any]
"""The value of a variable; None if it is unknown. Returns other expressions as they are."""


def operator_of(expression: Any) -> str:
    """The name of the operator that an expression calls; empty for other expressions."""
    return str(getattr(getattr(expression, "op", None), "name", ""))


def scalar_of(expression: Any) -> float | None:
    """The only element of a constant; None for other expressions."""
    if not is_constant(expression):
        return None
    array = array_of(expression)
    return float(array.reshape(())) if array.size == 1 else None
