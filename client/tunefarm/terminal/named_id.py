"""Ids as people type them: whole, or only their first characters."""

from collections.abc import Sequence
from typing import Final

from tunefarm_schemas.bad_input import BadInput

JOB_ID_LENGTH: Final = 21
RECORD_ID_LENGTH: Final = 32
ASKED_FOR: Final = 6
"""So many ids are looked up at most: all but one of them are named where they begin alike."""


def require_one(
    noun: str, text: str, found: Sequence[str], *, field: str | None = None, fix: str | None = None
) -> None:
    """Refuse a text that is the beginning of no id, or of several.

    ``field`` is what the user gave it as, ``fix`` what to do where there is none.

    Raises:
        BadInput: names those that begin with it.
    """
    if len(found) == 1:
        return
    if not found:
        raise BadInput(field or noun, f"no {noun} is called {text[:100]!r}.", fix or f"See: tunefarm {noun}s list")
    more = ", and others" if len(found) == ASKED_FOR else ""
    named = ", ".join(found[: ASKED_FOR - 1])
    problem = f"several {noun}s begin with {text!r}: {named}{more}."
    raise BadInput(field or noun, problem, "Give more characters of its id.")
