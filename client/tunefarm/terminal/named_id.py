"""Ids given as a whole or as a prefix."""

from collections.abc import Sequence
from typing import Final

from tunefarm_schemas.bad_input import BadInput

JOB_ID_LENGTH: Final = 21
RECORD_ID_LENGTH: Final = 32
ASKED_FOR: Final = 6
"""The most ids that are looked up. An ambiguity error lists all but the last of them."""


def require_one(
    noun: str, text: str, found: Sequence[str], *, field: str | None = None, fix: str | None = None
) -> None:
    """Raise unless exactly one id begins with ``text``.

    ``field`` is the option or argument in the error, ``fix`` the advice if no id matches.

    Raises:
        BadInput: no id matches, or several, which it lists.
    """
    if len(found) == 1:
        return
    if not found:
        raise BadInput(field or noun, f"there is no {noun} {text[:100]!r}.", fix or f"See: tunefarm {noun}s list")
    more = ", and others" if len(found) == ASKED_FOR else ""
    named = ", ".join(found[: ASKED_FOR - 1])
    problem = f"several {noun}s begin with {text!r}: {named}{more}."
    raise BadInput(field or noun, problem, "Give more characters of its id.")
