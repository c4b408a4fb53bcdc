"""Says which functions of a module are not tuned, because they are not TIR."""

import warnings
from collections.abc import Sequence
from typing import Final

from tunefarm_schemas.visible_text import visible_line

MAX_NAMED: Final = 8
STACK_LEVEL: Final = 3
"""Of the caller of the method that warns."""


def untuned_text(names: Sequence[str]) -> str:
    """One line on the functions that are left as they are."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    named = ", ".join(visible_line(name) for name in names[:MAX_NAMED])
    return f"not tuned, for only TIR functions are: the Relax function{'s' if len(names) > 1 else ''} {named}{more}"


def warn_of_untuned(names: Sequence[str], stack_level: int = STACK_LEVEL) -> None:
    """Warn a Python program of the functions that are left as they are, if any."""
    if names:
        warnings.warn(untuned_text(names), stacklevel=stack_level)
