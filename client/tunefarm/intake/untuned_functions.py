"""Reports the functions of a module that are not tuned, because they are not TIR."""

import warnings
from collections.abc import Sequence
from typing import Final

from tunefarm_schemas.visible_text import visible_line

MAX_NAMED: Final = 8
STACK_LEVEL: Final = 3
"""Attributes the warning to the caller of the public method."""


def untuned_text(names: Sequence[str]) -> str:
    """One line that lists the untuned functions."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    named = ", ".join(visible_line(name) for name in names[:MAX_NAMED])
    return f"not tuned, because only TIR functions are: the Relax function{'s' if len(names) > 1 else ''} {named}{more}"


def warn_of_untuned(names: Sequence[str], stack_level: int = STACK_LEVEL) -> None:
    """Issue a Python warning about untuned functions, if there are any."""
    if names:
        warnings.warn(untuned_text(names), stacklevel=stack_level)
