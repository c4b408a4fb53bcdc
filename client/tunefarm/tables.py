"""Rows as text: a table on a terminal, aligned columns elsewhere."""

import json
import sys
from collections.abc import Sequence

from tunefarm_schemas.frozen import JsonValue


def print_rows(headings: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """Print aligned columns to standard output, or ``empty`` when there are no rows."""
    if not rows:
        print(empty)
        return
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    for row in [headings, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_json(value: JsonValue) -> None:
    """Print one JSON document to standard output."""
    json.dump(value, sys.stdout)
    print()
