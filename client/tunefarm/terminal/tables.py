"""Rows as text: a table on a terminal, aligned columns elsewhere."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel

from tunefarm.terminal.console import say, say_json
from tunefarm.terminal.exit_code import ExitCode
from tunefarm_schemas.frozen import JsonValue
from tunefarm_schemas.visible_text import visible_line

M = TypeVar("M", bound=BaseModel)


def print_list(
    found: Sequence[M], headings: Sequence[str], row: Callable[[M], Sequence[str]], *, empty: str, as_json: bool
) -> int:
    """Print models as a JSON array, or as rows; the exit status of a command that lists them."""
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
    else:
        print_rows(headings, [row(each) for each in found], empty=empty)
    return ExitCode.FINE


def print_rows(headings: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """Print aligned columns to standard output, or ``empty`` when there are no rows."""
    if not rows:
        say(empty)
        return
    # A name with a newline must not look like a row of its own.
    shown = [[visible_line(cell) for cell in row] for row in [headings, *rows]]
    widths = [max(len(row[column]) for row in shown) for column in range(len(headings))]
    for row in shown:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_json(value: JsonValue) -> None:
    """Print one JSON document to standard output."""
    say_json(value)
